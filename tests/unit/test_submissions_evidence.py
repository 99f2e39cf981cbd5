"""Evidence from files: digests that anybody can check, and no file that was not meant."""

from __future__ import annotations

import hashlib
import os
import socket
from pathlib import Path

import pytest

from expb_tui.core.errors import UsageError
from expb_tui.core.submissions.evidence import MAX_PATCH, EvidenceProblem, changes_of, complete, facts_of, patch_text
from expb_tui.core.submissions.fields import PATCH_TEXT
from tests.unit.test_submissions_forms import FILLED, form_of


def test_digest_size_and_type_are_those_of_the_bytes(tmp_path: Path) -> None:
    data = os.urandom(3_000_001)
    (tmp_path / "run.jsonl").write_bytes(data)
    facts = facts_of("run.jsonl", folder=tmp_path)
    assert facts.sha256 == hashlib.sha256(data).hexdigest()
    assert (facts.name, facts.size, facts.media_type) == ("run.jsonl", 3_000_001, "application/x-ndjson")


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.json", "application/json"),
        ("a.log", "text/plain"),
        ("a.unknown", "application/octet-stream"),
        ("a", "application/octet-stream"),
    ],
)
def test_types_do_not_depend_on_the_host(tmp_path: Path, name: str, kind: str) -> None:
    (tmp_path / name).write_bytes(b"")
    assert facts_of(name, folder=tmp_path).media_type == kind


async def test_rows_are_filled_in_and_others_left_alone(tmp_path: Path) -> None:
    (tmp_path / "report.json").write_text("{}")
    form = form_of("experimenter")
    rows = [{"kind": "artifact", "path": "report.json"}, {"kind": "revision", "name": "target", "revision": "9f2c1ab"}]
    values = await complete(form, form.defaults() | FILLED["experimenter"] | {"evidence": rows}, folder=tmp_path)
    assert form.to_body(values)["output"]["result"]["evidence"] == [
        {
            "kind": "artifact",
            "name": "report.json",
            "mediaType": "application/json",
            "sizeBytes": 2,
            "sha256": hashlib.sha256(b"{}").hexdigest(),
        },
        {"kind": "revision", "name": "target", "revision": "9f2c1ab"},
    ]


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: path.mkdir(), "is a folder"),
        (_fifo, "not a regular file"),
        (_socket, "cannot be read"),
        (lambda path: path.symlink_to("/etc/passwd"), "leads out of its folder"),
        (lambda path: path.symlink_to("/dev/zero"), "leads out of its folder"),
        (lambda path: path.symlink_to(path.name), "cannot be read"),
        (lambda path: None, "cannot be read"),
    ],
)
def test_what_is_no_plain_file_of_the_folder_is_refused(tmp_path: Path, make: object, words: str) -> None:
    make(tmp_path / "thing")  # type: ignore[operator]  # one of the makers above
    with pytest.raises(UsageError) as caught:
        facts_of("thing", folder=tmp_path)
    assert words in str(caught.value)


def test_links_inside_the_folder_and_named_paths_are_followed(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "1.log").write_text("x")
    (tmp_path / "latest.log").symlink_to("runs/1.log")
    (tmp_path / "work").mkdir()
    assert facts_of("latest.log", folder=tmp_path).size == 1
    assert facts_of("../runs/1.log", folder=tmp_path / "work").size == 1
    assert facts_of(str(tmp_path / "runs" / "1.log"), folder=Path("/")).size == 1
    (tmp_path / "work" / "out").symlink_to(tmp_path / "runs")
    with pytest.raises(UsageError, match="leads out"):
        facts_of("out/1.log", folder=tmp_path / "work")


async def test_every_bad_file_is_named_by_its_field(tmp_path: Path) -> None:
    form = form_of("experimenter")
    values = form.defaults() | FILLED["experimenter"] | {"evidence": [{"kind": "log", "path": "gone\x1b[2J.log"}]}
    with pytest.raises(EvidenceProblem) as caught:
        await complete(form, values, folder=tmp_path)
    assert list(caught.value.problems) == ["evidence"]
    assert "\x1b" not in str(caught.value)


GIT_PATCH = """diff --git a/cache/lookup.py b/cache/lookup.py
index 1..2 100644
--- a/cache/lookup.py
+++ b/cache/lookup.py
@@ -1 +1 @@
--- a/not/a/file
+++ b/not/a/file
diff --git a/new.py b/new.py
new file mode 100644
--- /dev/null
+++ b/new.py
diff --git a/old.py b/old.py
deleted file mode 100644
diff --git a/a.py b/b.py
similarity index 90%
rename from a.py
rename to b.py
"""


def test_changes_are_read_from_a_patch() -> None:
    assert changes_of(GIT_PATCH) == ["modify cache/lookup.py", "add new.py", "delete old.py", "rename a.py -> b.py"]
    assert changes_of("--- a/x.py\t2026\n+++ b/x.py\t2026\n@@ -1 +1 @@\n") == ["modify x.py"]
    assert changes_of("no patch at all") == []


async def test_a_patch_file_gives_content_digest_and_changes(tmp_path: Path) -> None:
    (tmp_path / "change.diff").write_text(GIT_PATCH)
    form = form_of("integrator")
    values = form.defaults() | FILLED["integrator"] | {"delivery": "patch", "patch_file": "change.diff", "changes": []}
    done = await complete(form, values, folder=tmp_path)
    assert done[PATCH_TEXT] == GIT_PATCH
    change_set = form.to_body(done)["output"]["integration"]["changeSet"]
    assert change_set["patch"]["sha256"] == hashlib.sha256(GIT_PATCH.encode()).hexdigest()
    assert {"path": "b.py", "action": "rename", "fromPath": "a.py"} in change_set["changes"]
    assert form.problems(done) == {}


@pytest.mark.parametrize("data", [b"\xff\xfe", b"", b"x" * (MAX_PATCH + 1)])
def test_other_patches_are_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "change.diff").write_bytes(data)
    with pytest.raises(UsageError):
        patch_text("change.diff", folder=tmp_path)
