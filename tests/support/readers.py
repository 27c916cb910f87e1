"""Somebody with a browser that has no script: follows links, fills forms in, presses buttons."""

from html.parser import HTMLParser
from urllib.parse import urlsplit

from dpmarket.campaign.access import add_member, link_member
from dpmarket.campaign.acts import OWNER


class Seen(HTMLParser):
    """A page, as a reader uses it: headings, visible text, links, forms."""

    def __init__(self, answer):
        super().__init__()
        self.status, self.path, self.html = answer.status_code, answer.url.path, answer.text
        self.bytes = len(answer.content)
        self.text, self.heading, self.links, self.forms = "", "", [], []
        self._open, self._form, self._option = [], None, None
        self.feed(answer.text)

    def handle_starttag(self, tag, attributes):
        own = dict(attributes)
        if tag == "a":
            self.links.append(own.get("href"))
        if tag == "form":
            self._form = {
                "action": own.get("action"),
                "method": own.get("method"),
                "values": {},
                "names": set(),
            }
            self.forms.append(self._form)
        if self._form is not None and tag in ("input", "select", "textarea", "button") and "name" in own:
            self._form["names"].add(own["name"])
            chosen = own.get("type") not in ("radio", "checkbox", "file") or "checked" in own
            if tag == "input" and chosen:
                self._form["values"][own["name"]] = own.get("value", "")
            if tag == "select":
                self._option = own["name"]
                self._form["values"].setdefault(own["name"], "")
            if tag == "textarea":
                self._form["values"].setdefault(own["name"], "")
        if tag == "option" and self._option and "selected" in own:
            self._form["values"][self._option] = own.get("value", "")
        self._open.append(tag)

    def handle_endtag(self, tag):
        if tag == "form":
            self._form = None
        if tag == "select":
            self._option = None
        while self._open and self._open.pop() != tag:
            pass

    def handle_data(self, text):
        if {"script", "style", "title"} & set(self._open):
            return
        self.text += text
        if "h1" in self._open:
            self.heading += text

    def form(self, action):
        """Return the one form that goes there."""
        (found,) = [form for form in self.forms if form["action"] == action]
        return found


class Reader:
    """A browser without scripts. It keeps the session's cookie, as browsers do on loopback."""

    def __init__(self, shop, language="en-GB"):
        self.shop, self.caller = shop, None
        self.headers = {"Accept": "text/html,*/*;q=0.8", "Accept-Language": language}

    def send(self, method, path, **options):
        """Send one request and follow where it leads; return the last answer."""
        headers = {**self.headers, **options.pop("headers", {})}
        answer = self.shop.request(method, path, headers=headers, **options)
        if "set-cookie" in answer.headers:
            self.headers["Cookie"] = answer.headers["set-cookie"].split(";")[0]
        while answer.status_code == 303:
            answer = self.shop.request("GET", answer.headers["location"], headers=self.headers)
        return answer

    def see(self, path):
        return Seen(self.send("GET", path))

    def press(self, page, action, place=0, **values):
        """Send the form of a page that goes somewhere, with some fields filled in."""
        form = [form for form in page.forms if (form["action"], form["method"]) == (action, "post")][place]
        unknown = set(values) - form["names"]
        assert not unknown, unknown
        return Seen(self.send("POST", action, data={**form["values"], **values}))

    def enter(self, link):
        """Open a link and press its button."""
        path = self.link = urlsplit(link).path
        self.shop.clock.pass_(seconds=10)  # signing in is limited
        return self.press(self.see(path), path)


def seller_of(shop, campaign, language="en-GB"):
    """Return the reader of somebody who was invited and has pressed the button."""
    (token,) = shop.invite(campaign)
    reader = Reader(shop, language)
    reader.enter(f"/i/{token}")
    return reader


def member_of(shop, role, language="en-GB"):
    """Return the reader of a new member, signed in."""
    reader = Reader(shop, language)
    reader.caller = shop.market.run(add_member, OWNER, f"A {role}", [role])
    return again(reader)


def again(reader):
    """Sign somebody in again: sessions end after hours, links of sellers do not."""
    if reader.caller is not None:
        reader.link = f"/login/{reader.shop.market.run(link_member, OWNER, reader.caller)}"
    reader.enter(reader.link)
    return reader
