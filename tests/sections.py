"""Sections of documents that are written by programs."""


def replace(path, heading, lines):
    """Puts `lines` below a heading of the second level, in place of what was there, or at the end."""
    sections = path.read_text().split("\n## ")
    new = heading + "\n\n" + "\n".join(lines) + "\n"
    for place, section in enumerate(sections):
        if place and section.partition("\n")[0] == heading:
            sections[place] = new
            break
    else:
        sections[-1] = sections[-1].rstrip("\n") + "\n"
        sections.append(new)
    path.write_text("\n## ".join(sections))
