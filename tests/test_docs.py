import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), ROOT / "data" / "README.md"]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_snippets_run(page: Path) -> None:
    for block in blocks(page, "python"):
        exec(compile(block, str(page), "exec"), {"__name__": "snippet"})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_files_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


def test_yaml_snippets_are_mappings() -> None:
    snippets = [block for page in PAGES for block in blocks(page, "yaml")]
    assert snippets
    assert all(isinstance(yaml.safe_load(block), dict) for block in snippets)


def test_files_that_the_readme_names_exist() -> None:
    named = re.findall(r"--config (configs/\S+\.yaml)", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert named
    assert all((ROOT / name).is_file() for name in named)
