"""One market: campaigns, sellers, money, privacy budgets, training and payouts, in one database.

* :mod:`.rules` has the public rules of a campaign and all that follows from them alone.
* :mod:`.database` opens a market and runs acts in it; :mod:`.acts` registers them with their roles;
  :mod:`.transaction` has the rows that they read and change.
* :mod:`.money` holds, ends and pays participations, one or many at once, and keeps the books.
* :mod:`.campaigns`, :mod:`.sellers`, :mod:`.line`, :mod:`.quoting`, :mod:`.training` and :mod:`.payouts` are
  the acts; :mod:`.views` is what each role sees.
* :mod:`.log` and :mod:`.repair` keep a backup that is put back from spending or paying twice.
"""
