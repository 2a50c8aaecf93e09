# Several texts at once: each the same as alone, in turns, by priority, stopped, refused.
# VECTORS: the folder of the images.
# ruff: noqa: F821 (the runner defines the names in capitals)
import llm

path = VECTORS + "tiny-int4.llm"
model = llm.load(path, context=40, sequences=3)

PROMPTS = ("", "ab", "abcabcabcabcabcabc", "ba", "abc")


def generator(i):
    return llm.Generator(model, temperature=1.5, seed=i)


def digest(ids):
    return llm.digest(ids)


alone = []
for i, prompt in enumerate(PROMPTS):
    gen = generator(i)
    text = "".join(gen.generate(prompt, max_tokens=10 + 7 * i, echo=True))
    alone.append((text, digest(gen.ids), gen.stop_reason))

print("together")
with llm.Scheduler(model) as scheduler:
    jobs = [
        scheduler.submit(generator(i), prompt, max_tokens=10 + 7 * i, echo=True)
        for i, prompt in enumerate(PROMPTS)
    ]
    scheduler.run()
    print([(job.read(), digest(job.ids), job.stop_reason) for job in jobs] == alone)
    print([job.done for job in jobs], scheduler.jobs, scheduler.step())

    print("again: the prompts are in the cache; one generator writes one text at a time")
    gen = generator(1)
    first = scheduler.submit(gen, PROMPTS[1], max_tokens=17, echo=True)
    second = scheduler.submit(gen, PROMPTS[1], max_tokens=5)
    pieces = list(first)
    print("".join(pieces) == alone[1][0], second.done, len(second.ids))
    scheduler.run()
    gen = generator(1)
    "".join(gen.generate(PROMPTS[1], max_tokens=17))
    print(second.read() == "".join(gen.generate(PROMPTS[1], max_tokens=5)))

    print("priority")
    ended = []
    jobs = [
        scheduler.submit(generator(i), "ab", max_tokens=4, priority=priority)
        for i, priority in enumerate((0, 2, 1, 2))
    ]
    more = True
    while more:
        more = scheduler.step()
        ended += [i for i, job in enumerate(jobs) if job.done and i not in ended]
    print(sorted(ended[:2]), ended[2:])

    print("stopped")
    seen = []
    job = scheduler.submit(generator(0), "ab", max_tokens=30, on_text=seen.append)
    other = scheduler.submit(generator(2), "ba", max_tokens=30)
    while len(seen) < 3:
        scheduler.step()
    job.stop()
    job.stop()
    print(job.done, job.stop_reason, job.read() == "", len(job.ids) >= 3)
    other.gen.stop()
    scheduler.step()
    print(other.done, other.stop_reason, scheduler.step())
    nothing = scheduler.submit(generator(0), "ab", max_tokens=0, echo=True)
    print(list(nothing), nothing.stop_reason)

    print("refused")
    for arguments in (
        (generator(0), "a" * 200),
        (generator(0), "a", -1),
        (llm.Generator(llm.load(path)), "a"),
    ):
        try:
            scheduler.submit(arguments[0], arguments[1], max_tokens=(arguments + (None,))[2])
        except ValueError as error:
            print(error)
    try:
        llm.Scheduler(model)
    except ValueError as error:
        print(error)
    job = scheduler.submit(generator(0), "ab")
    scheduler.step()
    job.sequence.rewind(0)
    try:
        list(job)
    except (RuntimeError, ValueError) as error:
        print(job.stop_reason, job.error is error, error)
    waiting = scheduler.submit(generator(0), "ab")
    begun = scheduler.submit(generator(1), "ab")
    scheduler.step()
print(waiting.stop_reason, begun.stop_reason)
print(len([model.sequence() for _ in range(3)]))
