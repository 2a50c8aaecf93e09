"""What is kept of a text that falls out of the context."""

from .model import Tokenizer


def extract(text, size):
    """Sentences of `text`, `size` characters at most, whose words are the most frequent in it (as
    Luhn chose them, 1958), in their order.
    """
    sentences = _sentences(text)
    counts = {}
    for sentence in sentences:
        for word in _words(sentence):
            counts[word] = counts.get(word, 0) + 1
    ranked = []
    for i, sentence in enumerate(sentences):
        words = _words(sentence)
        if words:  # the earlier of equals first
            ranked.append((-sum([counts[word] for word in words]) / len(words), i))
    ranked.sort()
    chosen = []
    for _, i in ranked:
        size -= len(sentences[i]) + 1
        if size < 0:
            break
        chosen.append(i)
    return " ".join([sentences[i] for i in sorted(chosen)])


def _sentences(text):
    sentences = []
    start = 0
    for i, character in enumerate(text):
        if character == "\n" or (character in ".!?" and text[i + 1 : i + 2] in ("", " ", "\n")):
            sentence = text[start : i + 1].strip()
            if sentence and sentence not in sentences:
                sentences.append(sentence)
            start = i + 1
    return sentences  # what follows is no whole sentence


def _words(sentence):
    # Short words say little.
    words = [word.strip(".,;:!?\"'()").lower() for word in sentence.split()]
    return [word for word in words if len(word) > 3]


def condense(model, tokens, summarize):
    """The tokens to go on with in place of `tokens`, which fill the context: begin of text, a
    summary of the older half, and the newer half.
    """
    first = 1 if tokens[0] == model.bos_id else 0
    middle = (len(tokens) + first) // 2
    old = Tokenizer(model).decode(tokens[first:middle])
    room = len(tokens) // 4  # tokens of the summary
    text = extract(old, 4 * room) if summarize == "extract" else summarize(old)
    return tokens[:first] + (model.encode(text, False)[:room] if text else []) + tokens[middle:]
