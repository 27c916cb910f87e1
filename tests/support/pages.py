"""Read a report's page as a program would: its numbers, its charts, its text."""

from html.parser import HTMLParser

VOID = {"meta", "link", "br", "hr", "img", "input"}


class Page(HTMLParser):
    """All ``<data>`` elements, charts, and the text of paragraphs without their numbers."""

    def __init__(self, text):
        super().__init__()
        self.numbers = []  # (name, style, value, shown)
        self.charts = []  # attributes of <svg>, with title and desc
        self.prose = ""
        self.text = ""
        self.ids = []
        self.addresses = []
        self._open = []
        self.feed(text)
        self.close()
        assert not self._open, self._open

    def handle_starttag(self, tag, attributes):
        own = dict(attributes)
        if "id" in own:
            self.ids.append(own["id"])
        self.addresses += [own[key] for key in ("src", "href", "action", "data") if own.get(key)]
        if tag == "data":
            self.numbers.append([own["data-name"], own["data-style"], own["value"], ""])
        if tag == "svg":
            self.charts.append({**own, "title": "", "desc": ""})
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, text):
        if "style" in self._open:
            return
        if "svg" in self._open:
            if self._open[-1] in ("title", "desc"):
                self.charts[-1][self._open[-1]] += text
            return
        self.text += text
        if "data" in self._open:
            self.numbers[-1][3] += text
        elif "p" in self._open:
            self.prose += text


def value_at(data, path):
    """Return what stands at a dotted path of plain data."""
    for key in path.split("."):
        data = data[int(key) if key.isdigit() else key]
    return data
