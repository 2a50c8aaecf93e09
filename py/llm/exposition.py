"""The figures of `Metrics` in Prometheus's text format, version 0.0.4."""

# Key of as_dict(), name, type, what it is, and by how much it is divided to be in base units.
_FIGURES = (
    ("texts", "llm_texts_total", "counter", "Texts begun", 1),
    ("prompt_tokens", "llm_prompt_tokens_total", "counter", "Tokens of prompts", 1),
    ("prefill_ms", "llm_prefill_seconds_total", "counter", "Time for prompts", 1000),
    ("tokens", "llm_tokens_total", "counter", "Tokens generated", 1),
    ("decode_ms", "llm_decode_seconds_total", "counter", "Time for tokens", 1000),
    ("first_token_ms", "llm_first_token_seconds", "gauge", "To the last text's first token", 1000),
    ("tokens_per_s", "llm_tokens_per_second", "gauge", "Tokens a second", 1),
    ("model_ram", "llm_model_ram_bytes", "gauge", "RAM of the model", 1),
    ("heap_peak", "llm_heap_peak_bytes", "gauge", "Heap in use at most", 1),
    ("kv_used", "llm_kv_used_bytes", "gauge", "Of the cache, in use", 1),
    ("kv_share", "llm_kv_used_ratio", "gauge", "Share of the cache in use", 1),
    ("temperature", "llm_temperature_celsius", "gauge", "Of the chip", 1),
    ("energy_mj", "llm_energy_joules_total", "counter", "Energy, an estimate", 1000),
    ("limits_fired", "llm_limits_fired_total", "counter", "Limits that were crossed", 1),
)


def text(figures):
    """The page for the dict of `Metrics.as_dict`; what is None is left out."""
    lines = []

    def add(name, kind, about, samples):
        lines.append(f"# HELP {name} {about}.")
        lines.append(f"# TYPE {name} {kind}")
        for labels, value in samples:
            lines.append(f"{name}{labels} {value}")

    for key, name, kind, about, divisor in _FIGURES:
        value = figures[key]
        if value is not None:
            add(name, kind, about, [("", value / divisor if divisor > 1 else value)])
    times = [
        (f'{{quantile="{p / 100}"}}', figures[f"token_ms_p{p}"] / 1000)
        for p in (50, 90, 99)
        if figures["token_ms_p50"] is not None
    ]
    if times:
        add("llm_token_seconds", "summary", "Of the last tokens", times)
    residency = [(f'{{mhz="{mhz}"}}', ms / 1000) for mhz, ms in figures["residency_ms"].items()]
    add("llm_clock_seconds_total", "counter", "Time at each clock", residency)
    return "\n".join(lines) + "\n"
