"""What the tests have in common."""
import json
import pathlib
import tempfile
import unittest

from ..payload import Payload


class FolderTests(unittest.TestCase):
    """Tests with a folder of their own."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def payload(self, name, text, **expected):
        """A payload of this text, or of the JSON of a value."""
        path = self.folder / name
        path.write_text(text if isinstance(text, str) else json.dumps(text), encoding="utf-8")
        return Payload(path, {"file": name, **expected} if expected else {})
