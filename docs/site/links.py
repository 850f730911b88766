"""Links to what is no page of the site (sources, tables) lead to the repository."""

import os
import re

from mkdocs.structure.pages import Page

LINK = re.compile(r"(\]\()([^)#\s]+)([^)]*\))")


def on_page_markdown(markdown: str, page: Page, config, files) -> str:
    """Rewrites the links of a page."""
    here = os.path.dirname(page.file.src_uri)

    def to_repository(m: re.Match) -> str:
        target = m[2]
        path = os.path.normpath(os.path.join(here, target))
        if "://" in target or target.startswith("mailto:") or files.get_file_from_path(path):
            return m[0]
        root = os.path.dirname(os.path.dirname(os.path.dirname(config.config_file_path)))
        if not os.path.exists(os.path.join(root, path)):
            return m[0]  # mkdocs says that it is not there
        return f"{m[1]}{config.repo_url}blob/main/{path}{m[3]}"

    parts = re.split(r"(?s)(```.*?```|`[^`\n]*`)", markdown)
    parts[::2] = [LINK.sub(to_repository, p) for p in parts[::2]]
    return "".join(parts)
