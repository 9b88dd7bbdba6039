"""The data folder: one holder, lasting secrets, clear refusals."""

import os
from pathlib import Path

import pytest

from vitascope.local.errors import FolderError
from vitascope.local.folder import open_folder, write_private


def test_folder_and_secrets_are_for_the_owner_only(tmp_path: Path) -> None:
    """Nobody else can enter the folder or read a secret in it."""
    with open_folder(tmp_path / "new" / "run", min_free_bytes=0) as folder:
        assert [0o700] * 5 == [part.stat().st_mode & 0o777 for part in (folder.path, *folder.path.iterdir())]
        assert {0o600} == {file.stat().st_mode & 0o777 for file in folder.run.iterdir()}


def test_identity_and_credentials_last(tmp_path: Path) -> None:
    """A second run of the same folder has the same secrets; another folder has others."""
    with open_folder(tmp_path / "a", min_free_bytes=0) as first:
        pass
    with open_folder(tmp_path / "a", min_free_bytes=0) as again, open_folder(tmp_path / "b", min_free_bytes=0) as other:
        assert first == again
        assert first.folder_id != other.folder_id
        assert first.credentials.nats_password != other.credentials.nats_password
        assert first.credentials.s3_secret_key != other.credentials.s3_secret_key


def test_secrets_are_not_shown(tmp_path: Path) -> None:
    """A folder that gets into a log gives nothing away."""
    with open_folder(tmp_path, min_free_bytes=0) as folder:
        assert folder.credentials.s3_secret_key not in repr(folder)
        assert folder.credentials.nats_password not in repr(folder)


def test_second_holder_is_refused_and_told_the_first(tmp_path: Path) -> None:
    """While one holds the folder another is refused, by whatever path; afterwards it may have it."""
    (tmp_path / "link").symlink_to(tmp_path / "run")
    with (
        open_folder(tmp_path / "run", min_free_bytes=0),
        pytest.raises(FolderError, match=f"process id {os.getpid()} "),
        open_folder(tmp_path / "link", min_free_bytes=0),
    ):
        pass
    with open_folder(tmp_path / "link", min_free_bytes=0) as folder:
        assert (tmp_path / "run").resolve() == folder.path


def test_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    """The message names the folder."""
    (tmp_path / "file").touch()
    with pytest.raises(FolderError, match="file/run cannot be used"), open_folder(tmp_path / "file" / "run"):
        pass


def test_full_disk_is_refused(tmp_path: Path) -> None:
    """The start is refused while there is time to make room."""
    with pytest.raises(FolderError, match="too full"), open_folder(tmp_path, min_free_bytes=2**62):
        pass


def test_damaged_credentials_are_refused(tmp_path: Path) -> None:
    """They are not replaced behind the user's back: the servers' data belongs to the old ones."""
    with open_folder(tmp_path, min_free_bytes=0) as folder:
        (folder.run / "credentials.json").write_text('{"nats_user": ')
    with pytest.raises(FolderError, match="cannot be used"), open_folder(tmp_path, min_free_bytes=0):
        pass


def test_private_file_replaces_even_after_a_crash(tmp_path: Path) -> None:
    """A draft that a crash has left, readable by all, is not reused."""
    (tmp_path / "secret.new").write_text("half")
    write_private(tmp_path / "secret", "whole")
    assert ["secret"] == [path.name for path in tmp_path.iterdir()]
    assert (tmp_path / "secret").read_text() == "whole"
    assert (tmp_path / "secret").stat().st_mode & 0o777 == 0o600
