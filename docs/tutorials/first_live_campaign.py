# %% [markdown]
# # Your first live campaign
#
# You open a campaign in a browser, sell to it as one of the people who are invited, and look at what came of it. Everything
# here is a page; nothing has to be programmed, and every page works without JavaScript. The pictures are made by a script
# (`docs/make_service_screenshots.py`) from the service as it is. It needs the extra `service`
# (`pip install 'dpmarket[service]'`).
#
# ## Start
#
#     $ dpmarket service init study
#     ...
#     $ dpmarket service invite-member study "A hospital" buyer
#     ...
#     $ dpmarket service invite-member study "A bank's desk" paymaster
#     ...
#     $ dpmarket serve study
#
# The first three commands print a link each, for an operator, a buyer and a paymaster. A link signs in when its button is
# pressed, once; mail programs that open links for their own reasons use nothing up. There are no passwords.
#
# ## The buyer plans
#
# The buyer's link leads to the list of campaigns, and from there to a form. It is the market file (see
# "reference/market-file"): the same keys, and the same refusals in the same words. *Plan* tells what the budget buys
# before anybody is asked, and what half and double would.
#
# ![The form of a new campaign, with its plan beside it](../_static/service/plan.png)
#
# *Save as a draft* keeps it. The paymaster enters that the money has arrived (*Payments*), the buyer presses *Open it*: from
# now on the rules are frozen, and their digest stands on the page that every seller reads.
#
# ## The operator invites
#
# The operator opens the campaign, uploads a CSV file whose first column names people, and gets a link for each. The links are
# shown once, in that answer: whoever has one acts for that person. This is why buyers do not see them, unless the settings say
# so.
#
# ## A seller decides
#
# A seller opens the link, on a phone as likely as not.
#
# ![The invitation, with one button](../_static/service/invitation.png)
#
# The next page says who holds which role, what is sold, what may be answered, what is promised and what is not, and what
# happens on leaving. It ends with its version and the digest of all of it.
#
# ![What taking part means](../_static/service/consent.png)
#
# Then comes the choice. Money for any choice is set aside before the menu is shown, so that nobody chooses in vain. The slider
# begins at the most private end. Of 100 strangers who guess a yes-or-no answer by a coin 50 are right; the page says how many
# are right at most after reading the model. This number and epsilon are rounded up, the payment is exact. Declining is as near
# as choosing.
#
# ![The slider over the menu](../_static/service/choose.png)
#
# Who would rather say what their privacy is worth to them does so below the slider, and gets the offer of that cost. It is
# kept nowhere. Either way the offer is shown again, with the time until which it stands, before it is accepted.
#
# ![The offer](../_static/service/offer.png)
#
# The answers are a form made from the market file, with a field for every number, category, date, and truth value. The browser
# checks them, the service checks them again, and then they are sealed to a key that only the training has.
#
# ![The answers](../_static/service/record.png)
#
# Until the training begins *Leave* says what leaving would do at this moment, and does it.
#
# ## Everybody watches what they may
#
# The buyer sees how many people are how far. Sums of payments and promises move in batches of 20 acceptances, and the balance
# of escrow is not shown at all while people come: a sum that changes by one person tells that person's payment, and a payment
# tells a cost.
#
# ![The campaign as its buyer sees it](../_static/service/dashboard.png)
#
# When time is up the campaign closes and trains by itself. The buyer finds model, certificate and report on the same page; the
# paymaster makes a payout, downloads the file for the bank, and enters what became of it.
#
# ## The seller checks
#
# The receipt says what was promised and paid. The page behind *Open the page that checks receipts* checks it inside the
# browser and sends nothing anywhere; `/verify` checks a certificate, with or without a receipt, for anybody.
#
# ![The receipt](../_static/service/receipt.png)
#
# ## What protects the forms
#
# Every change is a POST. The service refuses one that another site's page asks for (by `Sec-Fetch-Site` and `Origin`), and the
# session's cookie is not sent from other sites; no page can be framed. Each form has a key of its own: pressing its button
# twice does its act once.
#
# A language is one file, `web/texts/en.toml`: a copy of it with other sentences, named after the language, is offered to
# browsers that ask for it. Money, numbers and times follow the browser's locale.
