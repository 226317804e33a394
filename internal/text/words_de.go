package text

// German.

var germanFunction = setOf(
	`der die das den dem des ein eine einen einem einer eines und oder aber denn sondern sowie in im ins an am ans auf aufs
aus bei beim bis durch für gegen hinter mit nach ohne seit über um unter unterm von vom vor während wegen zu zum zur
zwischen ist sind war waren wird werden wurde wurden worden sein bin bist hat haben hatte hatten es er sie ihr ihre
ihren ihrem ihrer ihres sein seine seinen seinem seiner seines sich dass daß als wie wenn ob weil nicht kein keine
keinen keinem keiner auch so nur noch wer was wen wem wessen wo wann warum wieso weshalb womit wodurch wofür wohin
woher welche welcher welches welchen welchem dieser diese dieses diesen diesem jener jene jenes da dort man zum`,
)

var germanStop = setOf(
	`ich du wir mich dich uns euch mir dir ihm ihn ihnen mein meine meinen meinem meiner dein deine unser unsere unserer
unseren euer eure gewesen sei seid wäre wären würde würden habe hast habt hätte hätten gehabt kann kannst können konnte
konnten könnte könnten muss muß müssen musste mussten müsste soll sollen sollte sollten will wollen wollte wollten mag
möchte möchten darf dürfen durfte durften alle allem allen aller alles andere anderen anderer anderes anderem beide
beiden einige einigen einiger etwas jede jeden jedem jeder jedes manche mancher solche solcher viel viele vielen vieler
mehr mehrere mehreren meist sehr schon immer wieder hier dann nun jetzt doch ja nein mal etwa bereits sogar zwar damit
dabei dafür dagegen daher dadurch daran darauf daraus darin darüber darum davon davor dazu deren dessen denen hin her
je jedoch nachdem obwohl ohne sobald soweit indem bevor ehe falls sofern innerhalb außerhalb gegenüber entlang neben
nebst samt statt anstatt trotz laut gemäß bzw usw`,
)

// germanCommon are words that open sentences, and nouns that name no thing of their own. Nouns are capitalised, so that
// the list is of use inside sentences, too.
var germanCommon = setOf(
	`allerdings also anfang anfangs anschließend aufgrund auswahl außerdem besonders bisher danach demnach deshalb
deswegen diesbezüglich drei dritte ebenfalls ebenso eigentlich einerseits andererseits einmal endlich entsprechend erst
erste ersten erster erstes erstmals ferner folglich früher ganz gegen gemeinsam genau gerade gestern gleichzeitig
gut häufig heute heutzutage hierbei hierdurch hierfür hierzu hingegen hinzu infolge insbesondere insgesamt inzwischen
lange letzte letztlich lediglich manchmal mindestens mittlerweile möglicherweise nachfolgend nachher natürlich neu neue
neuen neuer neues nebenbei nie niemand nämlich oben oft obgleich offenbar plötzlich rund schließlich seitdem selbst
seither somit sonst später sowohl stattdessen teils teilweise trotzdem überall übrigens ungefähr unten ursprünglich
vermutlich vielleicht vielmehr vier vorher weiter weitere weiteren weiterhin wenige weniger wenigstens wichtig wohl
zahlreiche zehn zuerst zudem zuletzt zumeist zunächst zurück zusammen zusätzlich zuvor zwei zwanzig zweite zweiten
zwölf fünf sechs sieben acht neun elf hundert tausend million millionen milliarde milliarden dutzend prozent
januar jänner februar märz april mai juni juli august september oktober november dezember montag dienstag mittwoch
donnerstag freitag samstag sonnabend sonntag frühling frühjahr sommer herbst winter morgen mittag nachmittag abend
nacht mitternacht tag tage tagen tages woche wochen monat monate monaten jahr jahre jahren jahres jahrhundert
jahrhunderte jahrhunderts jahrhunderten jahrzehnt jahrzehnte jahrzehnten zeit zeiten zeitpunkt zeitraum stunde stunden
minute minuten sekunde sekunden mal male ende beginn mitte
mann männer männern frau frauen kind kinder kindern mensch menschen leute person personen bürger bürgern bewohner
einwohner einwohnern familie familien vater mutter eltern sohn söhne tochter töchter bruder brüder schwester schwestern
freund freunde herr herrn herren dame damen name namen mitglied mitglieder mitgliedern gruppe gruppen team mannschaft
spieler spielern
stadt städte städten staat staaten land länder ländern landes dorf dörfer ort orte orten gebiet gebiete gebieten region
regionen gegend bezirk viertel straße straßen platz plätze haus häuser gebäude kirche kirchen schule schulen
universität universitäten gemeinde gemeinden provinz küste fluss flüsse berg berge see insel inseln meer welt erde
natur wasser luft feuer licht energie kraft kräfte
arbeit arbeiten arbeiter aufgabe aufgaben beispiel beispiele beispielen frage fragen antwort antworten problem probleme
problemen lösung grund gründe gründen ursache folge folgen ergebnis ergebnisse wirkung ziel ziele teil teile teilen art
arten form formen weise fall fälle fällen sache sachen ding dinge idee ideen begriff begriffe wort worte wörter sprache
sprachen text texte buch bücher büchern artikel bild bilder film filme lied lieder musik kunst werk werke spiel spiele
spielen titel thema themen rolle rollen
geld preis preise kosten markt märkte wirtschaft unternehmen firma firmen handel industrie produkt produkte güter
regierung regierungen gesetz gesetze recht rechte partei parteien politik präsident könig königin kaiser minister
kanzler papst bischof direktor leiter professor krieg kriege kriegen frieden schlacht armee armeen truppen soldat
soldaten polizei gericht gerichte macht mächte
zahl zahlen anzahl menge mengen hälfte drittel meter kilometer kilogramm grad punkt punkte punkten linie linien höhe
länge größe breite tiefe fläche seite seiten stelle stellen stufe reihe system systeme systemen methode methoden
technik daten wert werte werten bereich bereiche bereichen bedeutung entwicklung leben tod geburt
gesellschaft geschichte bevölkerung kultur wissenschaft forschung theorie theorien studie studien untersuchung
körper kopf hand hände auge augen herz blut zelle zellen tier tiere tieren pflanze pflanzen baum bäume stein steine
metall gold silber eisen holz öl gas stoff stoffe essen nahrung krankheit krankheiten arzt ärzte patient patienten
patientin medizin medikament medikamente raum räume weg wege wegen tür fenster tisch auto autos zug züge schiff schiffe
flugzeug maschine maschinen computer gerät geräte anwendung anwendungen datei dateien programm programme programmen
benutzer nutzer paket pakete version versionen abschnitt kapitel inhalt hinweis hinweise möglichkeit möglichkeiten
unterschied unterschiede verhältnis beziehung beziehungen verbindung versuch versuche erfolg einfluss einflüsse
interesse interessen hilfe schutz sicherheit gefahr kontrolle ordnung verwendung stück stücke mittel anteil anteile`,
)

var germanAbbreviations = setOf(`dr prof hr fr st nr bzw ca etc usw vgl z.b d.h u.a bspw ggf inkl abs art bd hrsg jh jhd
jhdt geb gest v.chr n.chr chr mio mrd str tel sog evtl max min zzgl u.s.w o.ä s.o s.u`)
