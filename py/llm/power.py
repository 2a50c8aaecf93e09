"""What a processor takes at each clock: milliwatts by megahertz, as in boards/*/power.json."""


def read(power):
    """The dict of a power.json, by its path; a dict as it is."""
    if not isinstance(power, str):
        return power
    import json

    with open(power) as file:
        return {level["mhz"]: level["mw"] for level in json.load(file)["levels"]}


def milliwatts(power, hz):
    """At a clock in hertz; None if it is not known."""
    return power.get((hz + 500_000) // 1_000_000)


def millijoules(power, residency):
    """Of a dict of milliseconds by clock in hertz; None if a clock's power is not known."""
    total = 0
    for hz, ms in residency.items():
        mw = milliwatts(power, hz)
        if ms and mw is None:
            return None
        total += ms and ms * mw
    return total / 1000
