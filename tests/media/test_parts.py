"""Media parts: what they may be made of, and parts from files."""

from __future__ import annotations

import base64
import os
import struct
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.media.files import MP3, b64, gif, jpeg, pdf, png, wav, webp
from toolnexus import ConfigError, MediaPart
from toolnexus.core.image_size import image_size
from toolnexus.core.media import MAX_IMAGE

PNG = b64(png())


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "neither data nor url: give the one or the other; a file is read by MediaPart.from_file"),
        ({"mime_type": "image/png"}, "neither data nor url"),
        ({"data": PNG, "url": "https://e.com/a.png"}, "data and url: give the one or the other"),
        ({"data": b"\x89PNG"}, "data is bytes; give base64 text: base64.b64encode(content).decode()"),
        ({"mime_type": "image/png", "data": "photo.png"}, "data='photo.png' (str): this is no base64 text"),
        ({"mime_type": "image/png", "data": ""}, "this is no base64 text"),
        ({"mime_type": "image/png", "data": "AAA"}, "this is no base64 text"),
        ({"mime_type": "image/png", "data": "A==="}, "this is no base64 text"),
        ({"mime_type": "image/png", "data": "AA=A"}, "this is no base64 text"),
        ({"mime_type": "image/png", "data": "ÄÄÄÄ"}, "this is no base64 text"),
        ({"data": f"data:image/png;base64,{PNG}"}, "data is a data: URL; give only what stands behind"),
        ({"url": f"data:image/png;base64,{PNG}"}, "url is a data: URL; give what stands behind"),
        ({"url": "photo.png"}, "give an http(s) address; a file is read by MediaPart.from_file(path)"),
        ({"url": "file:///photo.png"}, "give an http(s) address"),
        ({"url": "https:///photo.png"}, "give an http(s) address"),
        ({"url": "https://e.com/a b.png"}, "give an http(s) address"),
        ({"url": "https://[e.com/a.png"}, "give an http(s) address"),
        ({"url": 3}, "url=3 (int): give an http(s) address"),
        (
            {"url": "https://e.com/photo"},
            "nothing tells what kind it is; give mime_type=, such as 'image/png'",
        ),
        ({"data": "AAAA"}, "nothing tells what kind it is"),
        ({"mime_type": "png", "data": PNG}, "mime_type='png' (str): give a MIME type, such as 'image/png'"),
        ({"mime_type": "img/png", "data": PNG}, "give a MIME type"),
        ({"mime_type": "image/*", "data": PNG}, "give a MIME type"),
        ({"mime_type": "https://e.com/a.png", "data": PNG}, "give a MIME type"),
        ({"mime_type": 7, "data": PNG}, "mime_type=7 (int): give a MIME type"),
        ({"data": PNG, "name": Path("a.png")}, "give text"),
    ],
    ids=str,
)
def test_what_cannot_be_media_is_an_error_where_it_is_made(given: dict[str, Any], says: str) -> None:
    """[MED-01] The error names the field, is short whatever was given, and says what to give."""
    with pytest.raises(ConfigError) as raised:
        MediaPart(**given)
    assert says in str(raised.value) and len(str(raised.value)) < 250


def test_a_wrong_content_of_any_size_gives_a_short_error() -> None:
    """[MED-01] Five megabytes that are no base64 are not repeated in the error."""
    with pytest.raises(ConfigError) as raised:
        MediaPart("image/png", data="ä" * 5_000_000)
    assert len(str(raised.value)) < 250


@pytest.mark.parametrize(
    ("part", "kind"),
    [
        (lambda: MediaPart(data=PNG), "image/png"),
        (lambda: MediaPart(data=b64(jpeg())), "image/jpeg"),
        (lambda: MediaPart(data=b64(gif())), "image/gif"),
        (lambda: MediaPart(data=b64(webp(b"VP8 ...."))), "image/webp"),
        (lambda: MediaPart(data=b64(pdf())), "application/pdf"),
        (lambda: MediaPart(data=b64(wav())), "audio/wav"),
        (lambda: MediaPart(data=b64(MP3)), "audio/mpeg"),
        (lambda: MediaPart(data=b64(b"\xff\xf3\x40\xc0" * 9)), "audio/mpeg"),
        (lambda: MediaPart("image/png", data=b64(jpeg())), "image/jpeg"),
        (lambda: MediaPart("audio/wav", data=b64(MP3)), "audio/mpeg"),
        (lambda: MediaPart("application/octet-stream", data=PNG), "image/png"),
        (lambda: MediaPart("text/plain", data=b64(b"GIF89a is a format")), "text/plain"),
        (lambda: MediaPart("image/png", data=b64(b"<html>")), "image/png"),
        (lambda: MediaPart("IMAGE/JPG", data="AAAA"), "image/jpeg"),
        (lambda: MediaPart("text/csv; charset=utf-8", data="AAAA"), "text/csv"),
        (lambda: MediaPart(url="https://e.com/p/A.JPEG?w=1#x"), "image/jpeg"),
        (lambda: MediaPart("image/webp", url="https://e.com/p"), "image/webp"),
        (lambda: MediaPart("model/gltf-binary", data="AAAA"), "model/gltf-binary"),
    ],
    ids=range(18),
)
def test_content_tells_the_kind_before_any_label(part: Callable[[], MediaPart], kind: str) -> None:
    """[MED-02] A kind may be left out; a wrong label of the same family, and one that says nothing, give
    way to the content; labels are put in their plain form."""
    assert part().mime_type == kind


def test_base64_of_every_usual_form_is_put_in_the_plain_one() -> None:
    """[MED-02] Lines of 76 characters and the alphabet of URLs mean the same content."""
    content = png(9, 9, bytes(range(256)) * 4)
    plain = b64(content)
    assert MediaPart(data=plain).data == plain
    assert MediaPart(data=base64.encodebytes(content).decode()).data == plain
    assert MediaPart(data=base64.urlsafe_b64encode(content).decode()).data == plain
    assert "-" in base64.urlsafe_b64encode(content).decode()


def test_a_part_does_not_show_its_content() -> None:
    """[MED-05] Five megabytes have no place in a log; parts are values: compared, hashed, copied."""
    part = MediaPart("image/png", data=PNG, name="a.png")
    assert PNG[:20] not in repr(part) and "a.png" in repr(part)
    assert {part, MediaPart(data=PNG, name="a.png")} == {part}
    assert part != MediaPart(data=b64(gif()), name="a.png")


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("photo.png", png(), "image/png"),
        ("photo.PNG", jpeg(), "image/jpeg"),
        ("photo", gif(), "image/gif"),
        ("scan.dat", pdf(), "application/pdf"),
        ("plain.pdf", b"%PDF-1.4\n%%EOF", "application/pdf"),
        ("preceded.pdf", b"\n" * 900 + pdf(), "application/pdf"),
        ("sound.wav", wav(), "audio/wav"),
        ("song.mp3", MP3, "audio/mpeg"),
        ("strange.mp3", b"\0" * 50, "audio/mpeg"),
        ("table.csv", "a,ä\n".encode(), "text/csv"),
        ("bom.txt", b"\xef\xbb\xbfhello", "text/plain"),
        ("format.md", b"GIF89a is a format", "text/markdown"),
        ("main.rs", b"fn main() {}", "text/plain"),
        ("Makefile", b"all:\n", "text/plain"),
        ("drawing.svg", b"<svg/>", "image/svg+xml"),
        ("data.json", b"{}", "application/json"),
    ],
)
def test_a_file_becomes_a_part(name: str, content: bytes, kind: str, tmp_path: Path) -> None:
    """[MED-03] The kind is told by the content, then by the name; the content is the file's, whole."""
    path = tmp_path / name
    path.write_bytes(content)
    part = MediaPart.from_file(path)
    assert (part.mime_type, part.name, part.url) == (kind, name, None)
    assert part.data is not None and base64.b64decode(part.data, validate=True) == content
    assert MediaPart.from_file(str(path), name="other").name == "other"


def test_a_kind_may_be_named_for_a_model_of_ones_own(tmp_path: Path) -> None:
    """[MED-03] `mime_type` opens the door to other kinds, and is still held against the content."""
    (tmp_path / "clip.mp4").write_bytes(b"\0\0\0\x18ftypmp42")
    assert MediaPart.from_file(tmp_path / "clip.mp4", mime_type="video/mp4").mime_type == "video/mp4"
    (tmp_path / "a.txt").write_bytes(png())
    assert MediaPart.from_file(tmp_path / "a.txt", mime_type="image/gif").mime_type == "image/png"


def test_a_file_of_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """[MED-03] `~` is the home folder."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "a.png").write_bytes(png())
    assert MediaPart.from_file("~/a.png").name == "a.png"


RAW = MAX_IMAGE // 4 * 3


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("empty.png", b"", "the file is empty"),
        ("page.png", b"<html>not found</html>", "its content is no PNG, JPEG, GIF or WebP image"),
        ("page.pdf", b"<html>not found</html>", "its content is no PDF"),
        ("huge.png", png(extra=b"x" * RAW), r"it has 3,932,\d+ bytes, and endpoints take 3,932,160"),
        ("tall.png", png(1, 8_001), "it has 1 x 8001 pixels, and endpoints take 8,000 on a side"),
        ("wide.jpg", jpeg(9_000, 20, metadata=150_000), "it has 9000 x 20 pixels"),
        ("latin.txt", "ä".encode("latin-1"), "its content is no UTF-8 text"),
        ("wide.txt", "ä".encode("utf-16"), "its content is no UTF-8 text"),
        ("tool.zip", b"PK\3\4\xff\xff", "no endpoint takes such a file; make it a PNG"),
        ("clip.mp4", b"\0\0\0\x18ftypmp42", "no endpoint takes such a file"),
        ("nul", b"text\0text", "no endpoint takes such a file"),
        ("long.txt", b"x" * 20_000_001, "it has more than 20,000,000 bytes"),
        ("long.png", png(extra=b"x" * 20_000_001), "bytes, and endpoints take"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_file_that_no_endpoint_takes_is_an_error(
    name: str, content: bytes, says: str, tmp_path: Path
) -> None:
    """[MED-04] The error names the file, the reason and the limit."""
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ConfigError, match=says) as raised:
        MediaPart.from_file(tmp_path / name)
    assert name in str(raised.value) and len(str(raised.value)) < 400


def test_what_is_no_file_is_an_error_at_once(tmp_path: Path) -> None:
    """[MED-04] Missing files, folders, devices and pipes that nobody writes to: none is waited for."""
    os.mkfifo(tmp_path / "pipe")
    wrong: list[tuple[Any, str]] = [
        (tmp_path / "none.png", "No such file"),
        (tmp_path, "Is a directory"),
        (tmp_path / "pipe", "it is no regular file"),
        ("/dev/zero", "it is no regular file"),
        ("a\0b", "embedded null"),
        (b"a.png", "give the path of a file"),
        (None, "path=None (NoneType): give the path of a file"),
    ]
    said: list[str] = []

    def try_all() -> None:
        for path, _ in wrong:
            try:
                said.append(repr(MediaPart.from_file(path)))
            except ConfigError as error:
                said.append(str(error))

    trying = threading.Thread(target=try_all, daemon=True)
    trying.start()
    trying.join(20)
    assert not trying.is_alive()
    assert [text for text, (_, says) in zip(said, wrong, strict=True) if says not in text] == []


@pytest.mark.parametrize(
    ("content", "size"),
    [
        (png(7, 9), (7, 9)),
        (gif(300, 2), (300, 2)),
        (jpeg(640, 480), (640, 480)),
        (jpeg(5, 6, metadata=190_000), (5, 6)),
        (webp(b"VP8 " + b"\0" * 4 + b"\0\0\0\x9d\x01\x2a" + struct.pack("<HH", 33 | 0x4000, 44)), (33, 44)),
        (webp(b"VP8L" + b"\0" * 4 + b"\x2f" + struct.pack("<I", 549 | 367 << 14) + b"\0"), (550, 368)),
        (webp(b"VP8X" + b"\0" * 8 + b"\x0f\0\0" + b"\x1f\0\0"), (16, 32)),
        (b"\x89PNG\r\n\x1a\n", None),
        (b"\xff\xd8\xff", None),
        (b"\xff\xd8\xff\xe1\0\0", None),
        (webp(b"ALPH"), None),
        (b"", None),
    ],
    ids=range(12),
)
def test_the_pixels_of_an_image_are_read_from_its_head(content: bytes, size: tuple[int, int] | None) -> None:
    """[MED-04] Of all four kinds; a head that does not tell is no error."""
    assert image_size(content) == size
