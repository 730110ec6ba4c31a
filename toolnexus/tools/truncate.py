"""Long outputs are cut once: head, tail, and where the whole text lies."""

from __future__ import annotations

MAX_BYTES = 50_000
MAX_LINES = 2_000


def needs_cut(text: str) -> bool:
    """Whether `text` is longer than a model gets to see."""
    if len(text) < MAX_LINES:  # the usual case: too short for either bound, whatever it holds
        return False
    if len(text) > MAX_BYTES:
        return True
    long_in_bytes = len(text) * 4 > MAX_BYTES and len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES
    return long_in_bytes or text.count("\n") >= MAX_LINES


def cut(text: str, where: str) -> str:
    """Two thirds of the allowance from the head, one third from the tail, and a note between.

    `where` says where the full text can be read. Never splits a character. Looks at the two ends
    only, so that a huge text costs no more than a long one.
    """
    head = _take(text[: MAX_BYTES * 2 // 3].splitlines(keepends=True), MAX_BYTES * 2 // 3, MAX_LINES * 2 // 3)
    tail = _take_end(text[-(MAX_BYTES // 3) :].splitlines(keepends=True), MAX_BYTES // 3, MAX_LINES // 3)
    dropped = len(text) - len(head) - len(tail)
    gap = text.count("\n", len(head), len(text) - len(tail))
    note = f"[… {dropped} characters, {gap} line breaks left out; the full text is in {where} …]"
    return f"{head.rstrip(chr(10))}\n{note}\n{tail}"


def _take(lines: list[str], size: int, count: int) -> str:
    out: list[str] = []
    for line in lines[:count]:
        encoded = len(line.encode("utf-8", "surrogatepass"))
        if encoded > size:
            out.append(_clip(line, size))
            break
        out.append(line)
        size -= encoded
    return "".join(out)


def _take_end(lines: list[str], size: int, count: int) -> str:
    return _take([line[::-1] for line in reversed(lines[-count:])], size, count)[::-1]


def _clip(text: str, size: int) -> str:
    data = text.encode("utf-8", "surrogatepass")
    while size and data[size] & 0xC0 == 0x80:  # inside a character
        size -= 1
    return data[:size].decode("utf-8", "surrogatepass")
