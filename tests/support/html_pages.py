"""A page of the service as a browser without scripts reads it: headings, visible text, links, forms."""

from html.parser import HTMLParser

VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}


class Form:
    """A form as it was served: where it leads, the values in it, and fields that somebody fills in."""

    def __init__(self, attributes):
        self.action, self.method = attributes.get("action"), attributes.get("method", "get")
        self.values, self.fields, self.files = {}, [], []

    @property
    def names(self):
        return {*self.values, *self.fields, *self.files}

    def add(self, tag, own):
        name, kind = own.get("name"), own.get("type", "text")
        if name is None or tag == "button":
            return
        if kind == "file":
            self.files.append(name)
        elif kind == "hidden":
            self.values[name] = own.get("value", "")
        else:
            if name not in self.fields:
                self.fields.append(name)
            if kind not in ("radio", "checkbox") or "checked" in own:
                self.values[name] = own.get("value", "")


class Page(HTMLParser):
    """A page as a reader sees it: text, heading, links, forms."""

    def __init__(self, answer):
        super().__init__()
        self.answer, self.status = answer, answer.status_code
        self.html, self.path = answer.text, answer.url.path
        self.text = self.heading = self.language = ""
        self.links, self.buttons, self.forms, self.loads, self.notices, self.inline = [], [], [], [], [], []
        self._open, self._select = [], None
        self.feed(self.html)

    def handle_starttag(self, tag, attributes):
        own = dict(attributes)
        self.language = own["lang"] if tag == "html" else self.language
        self.inline += [name for name in own if name.startswith("on") or name == "style"]
        self.loads += [own[name] for name in ("src", "srcset", "data", "poster") if name in own]
        if tag == "link":
            self.loads.append(own["href"])
        if tag == "a":
            self.links.append(own.get("href"))
            if "button" in own.get("class", "").split():
                self.buttons.append(own["href"])
        if tag == "form":
            self.forms.append(Form(own))
        if tag in ("input", "select", "textarea", "button") and "form" in self._open:
            self.forms[-1].add(tag, own)
        if tag == "select":
            self._select = own["name"]
        if tag == "option" and self._select and "selected" in own:
            self.forms[-1].values[self._select] = own.get("value", "")
        if own.get("role") == "status":
            self.notices.append(own.get("class"))
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag):
        while self._open and self._open.pop() != tag:
            pass

    def handle_data(self, data):
        if {"script", "style"} & set(self._open):
            self.inline += [data] * bool(data.strip())
        elif "title" not in self._open:
            self.text += data
            self.heading += data if "h1" in self._open else ""

    def form(self, having=None, about=""):
        """Return the first form to send; or the first that has a field, or whose address holds an id."""
        found = [form for form in self.forms if form.method == "post" and about in form.action]
        return next(form for form in found if having is None or having in {*form.values, *form.fields})
