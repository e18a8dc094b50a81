"""The description that goes into wheels: the README without what leads into the checkout."""

import re
from pathlib import Path

from hatchling.metadata.plugin.interface import MetadataHookInterface


class ReadmeOfArchives(MetadataHookInterface):
    """An index shows the text away from the files of the checkout: relative links become their text, pictures go."""

    def update(self, metadata: dict) -> None:
        """Set the description."""
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        text = re.sub(r"^!\[[^\]]*\]\((?!https?:)[^)]*\)\n\n", "", text, flags=re.MULTILINE)
        text = re.sub(r"\[([^\]]*)\]\((?!https?:)[^)]*\)", r"\1", text)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
