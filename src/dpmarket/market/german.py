"""The desk's own consent text in German: the same promises as the English one, paragraph by paragraph."""

from __future__ import annotations

GERMAN = """\
Sie entscheiden, wie viel Privatheit Sie verkaufen und für wie viel Geld. Ihre Angaben werden einmal
verwendet, für ein Modell oder für die Zahlen, nach denen diese Kampagne fragt, für alle zusammen.

Was versprochen wird. Wer sieht, was veröffentlicht wird, das Modell oder die Zahlen, und alles über alle
anderen weiß, erfährt wenig über Sie: Wie wenig, sagt die Zahl Epsilon Ihres Angebots. Sie erhalten, was
Ihr Angebot nennt, von dem Augenblick an, in dem das Training oder die Berechnung der Zahlen ihr Rauschen
zu ziehen beginnt, ob etwas daraus wird oder nicht. Ihre Angaben werden versiegelt, wenn Sie sie senden;
der Schlüssel, der sie öffnet, wird vernichtet, unmittelbar bevor Rauschen gezogen wird, und die
versiegelten Zeilen werden nach dem Training gelöscht.

Was nicht versprochen wird. Hängt das, was Ihnen Ihre Privatheit wert ist, mit Ihren Angaben zusammen,
dann sagt dieser Preis etwas über die Angaben, und Ihr Versprechen und Ihre Zahlung sagen etwas über den
Preis. Der Käufer sieht Summen vieler Verkäufer, nie Ihre; alle anderen Verkäufer zusammen mit dem Käufer
können Ihr Versprechen aber aus diesen Summen erfahren. Wer die Maschine betreibt, sieht, was die Maschine
sieht. Wo alle Angebote auf einmal gemacht werden, bleibt Ihre Meldung versiegelt aufbewahrt, damit ein
Prüfer die Angebote noch einmal bestimmen kann; sonst wird sie nicht aufbewahrt.

Geld. Ihre Zahlung wird zurückgelegt, bevor Sie um etwas gebeten werden. Wo alle Angebote auf einmal
gemacht werden, nachdem alle gemeldet haben, kann ihre Summe höher sein als das, was der Käufer
zurückgelegt hat: Was fehlt, schuldet der Käufer, alle Angebote gelten, und von Ihnen wird nichts
verlangt, bevor die Schuld bezahlt ist.

Gehen. Sie können jederzeit zurücktreten, bevor das Training beginnt; Ihre Angaben werden gelöscht, und
niemandes Angebot ändert sich. Während das Training läuft, lässt es sich nicht anhalten, und Sie werden
bezahlt. Nichts hängt davon ab, wie viel alle Angebote zusammen kosten oder wie viele Menschen teilnehmen.
"""
"""For readers of German; which language somebody agreed to is told by the digest of their page."""
