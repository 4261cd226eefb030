"""Reads Markdown as far as links need it: what is prose, and where links are."""
import re

FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})")
# A link's or an image's target, and the target of a reference definition.
INLINE = re.compile(r"(?<!\\)\]\(\s*<?([^\s()<>]*(?:\([^\s()]*\)[^\s()<>]*)*)>?(?:\s+\"[^\"]*\")?\s*\)")
DEFINITION = re.compile(r"^ {0,3}\[[^\]]+\]:\s*<?([^\s<>]+)>?")
CODE = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)")


def prose(text):
    """Lines with their numbers from 1, without blocks of code: fenced ones, and indented ones after an empty line."""
    fence, blank, indented = None, True, False
    for number, line in enumerate(text.splitlines(), 1):
        found = FENCE.match(line)
        if fence:
            if found and found[1][0] == fence[0] and len(found[1]) >= len(fence) and not line.strip(" `~"):
                fence = None
            continue
        if found:
            fence = found[1]
            continue
        if line.startswith("    ") and (blank or indented) and not re.match(r"\s+([-*]|\d+\.) ", line):
            indented = True
            continue
        indented = indented and not line.strip()
        blank = not line.strip()
        yield number, line


def blanked(line):
    """A line whose spans of code are blanks, so that positions stay."""
    return CODE.sub(lambda found: " " * len(found[0]), line)


def targets(line):
    """The targets of links in a line of prose, with the positions where each begins and ends."""
    for pattern in (INLINE, DEFINITION):
        for found in pattern.finditer(blanked(line)):
            yield found.start(1), found.end(1), line[found.start(1):found.end(1)]


def is_local(target):
    return not re.match(r"[a-z][a-z0-9+.-]*:", target, re.IGNORECASE)
