"""Somebody with a browser that has no script: follows links, fills forms in, presses buttons."""

from urllib.parse import urlsplit

from dpmarket.campaign.access import add_member, link_member
from dpmarket.campaign.acts import OWNER
from support.html_pages import Page


class Reader:
    """A browser without scripts. It keeps cookies, as browsers do on loopback."""

    def __init__(self, shop, language="en-GB"):
        self.shop, self.caller, self.cookies = shop, None, {}
        self.headers = {"Accept": "text/html,*/*;q=0.8", "Accept-Language": language}

    def send(self, method, path, **options):
        """Send one request and follow where it leads; return the last answer."""
        headers = {**self.headers, **options.pop("headers", {})}
        while True:
            if self.cookies:
                headers["Cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
            self.answer = self.shop.request(method, path, headers=headers, **options)
            for one in self.answer.headers.get_list("set-cookie"):
                name, _, value = one.split(";")[0].partition("=")
                self.cookies[name] = value
            if self.answer.status_code != 303:
                return self.answer
            method, path, options = "GET", self.answer.headers["location"], {}

    def see(self, path):
        return Page(self.send("GET", path))

    def press(self, page, action, place=0, **values):
        """Send the form of a page that goes somewhere, with some fields filled in."""
        form = [form for form in page.forms if (form.action, form.method) == (action, "post")][place]
        unknown = set(values) - {*form.names, "act"}
        assert not unknown, unknown
        return Page(self.send("POST", action, data={**form.values, **values}))

    def enter(self, link):
        """Open a link and press its button."""
        path = self.link = urlsplit(link).path
        self.shop.clock.pass_(seconds=10)  # signing in is limited
        return self.press(self.see(path), path)


def form_of(page, action):
    """Return the one form of a page that goes there."""
    (found,) = [form for form in page.forms if form.action == action]
    return found


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
