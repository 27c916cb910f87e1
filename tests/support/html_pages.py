"""Pages as programs read them: those of the service, and a report with its numbers and charts."""

import lxml.html


class Form:
    """A form as it was served: where it leads, the values in it, and fields that somebody fills in."""

    def __init__(self, form):
        self.action, self.method = form.get("action"), form.get("method", "get")
        self.values, self.fields, self.files = {}, [], []
        for own in form.iter("input", "select", "textarea"):
            if own.get("name"):
                self._add(own.get("name"), own.get("type", "text"), own)

    def _add(self, name, kind, own):
        if kind == "file":
            self.files.append(name)
            return
        if kind != "hidden" and name not in self.fields:
            self.fields.append(name)
        if kind not in ("radio", "checkbox") or "checked" in own.attrib:
            chosen = own.xpath(".//option[@selected]") if own.tag == "select" else [own]
            self.values[name] = chosen[-1].get("value", "") if chosen else ""

    @property
    def names(self):
        return {*self.values, *self.fields, *self.files}


class Page:
    """A page of the service as a reader sees it: text, heading, links, forms; what it would load or run."""

    def __init__(self, answer):
        self.answer, self.status = answer, answer.status_code
        self.html, self.path = answer.text, answer.url.path
        page = lxml.html.document_fromstring(self.html or "<p></p>")
        self.language = page.get("lang", "")
        unseen = "ancestor::script or ancestor::style or ancestor::title"
        self.text = "".join(page.xpath(f"//text()[not({unseen})]"))
        self.heading = "".join(page.xpath("//h1//text()"))
        self.links = page.xpath("//a/@href")
        self.buttons = page.xpath("//a[contains(concat(' ', @class, ' '), ' button ')]/@href")
        self.forms = [Form(form) for form in page.iter("form")]
        self.loads = page.xpath("//@src | //@srcset | //@data | //@poster | //link/@href")
        self.notices = [one.get("class") for one in page.xpath("//*[@role='status']")]
        self.inline = page.xpath("(//script | //style)//text()[normalize-space()]")
        self.inline += page.xpath("//@style | //@*[starts-with(name(), 'on')]")

    def form(self, having=None, about=""):
        """Return the first form to send; or the first that has a field, or whose address holds an id."""
        found = [form for form in self.forms if form.method == "post" and about in form.action]
        return next(form for form in found if having is None or having in {*form.values, *form.fields})


class Report:
    """All ``<data>`` elements of a report, its charts, and the text of paragraphs without their numbers."""

    def __init__(self, text):
        page = lxml.html.document_fromstring(text)
        self.numbers = [
            (one.get("data-name"), one.get("data-style"), one.get("value"), one.text_content())
            for one in page.iter("data")
        ]
        self.charts = [
            {**chart.attrib, **{name: chart.xpath(f"string(.//{name})") for name in ("title", "desc")}}
            for chart in page.iter("svg")
        ]
        self.text = "".join(page.xpath("//text()[not(ancestor::svg or ancestor::style)]"))
        self.prose = "".join(page.xpath("//p//text()[not(ancestor::data)]"))
        self.ids = page.xpath("//@id")
        self.addresses = [one for one in page.xpath("//@src | //@href | //@action | //@data") if one]
