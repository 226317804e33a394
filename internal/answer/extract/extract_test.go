package extract_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/answer/extract"
	"github.com/unweaver/unweaver/internal/text"
)

func weighEqually(string) float64 { return 1 }

func TestAnExtractAddsWhatIsAsked(t *testing.T) {
	driver := "[![Build Status](https://ci/b.svg)](https://ci) [![Go Ref](r.svg)](r)\n\n# Driver\n\n" +
		"## Parameters\n\nThe driver has parameters.\n\n### `maxAllowedPacket`\n\n```\nType: decimal number\nDefault: 64*1024*1024\n```\n\n" +
		"A packet is read whole.\n"
	vendors := "# Vendors\n\n| Vendor | Contact |\n|---|---|\n| Kestrel | Ines Moura |\n| Brandt | Ole Sand |\n"
	for _, c := range []struct{ language, question, title, content, want string }{
		{"en", "Who founded the harbour?", "Harbour", "Who founded the harbour is a question of many. The harbour has a long past. " +
			"It was founded by Ingrid Moe [3].", "It was founded by Ingrid Moe. [1]"},
		{"en", "When was the bridge opened?", "Bridge", "The bridge was opened with a speech. That was on 4 May 1890. Cats sleep.",
			"1890"},
		{"en", "How many boats may enter the harbour?", "Harbour", "Boats may enter the harbour by day. Boats enter the harbour slowly. " +
			"The harbour takes 40 boats.", "40 boats"},
		{"en", "What is the default maxAllowedPacket?", "Driver", driver, "maxAllowedPacket: "},
		{"en", "What is the default maxAllowedPacket?", "Driver", driver, "Default: 64*1024*1024"},
		{"en", "Who is the contact of Kestrel?", "Vendors", vendors, "Vendors, Vendor · Contact: Kestrel · Ines Moura"},
		{"en", "What is the capital of Norway?", "Oslo", "Oslo is the capital of Norway.", "Oslo is the capital of Norway."},
		{"en", "What did the van cost?", "Minutes", "## Van\n\nThe van came from Deters for 23,400 euros.\n\n" +
			"## Votes\n\n| motion | yes | no |\n|---|---|---|\n| buy the van | 9 | 2 |\n", "23,400 euros"},
		{"en", "Who is the harbour master?", "Ines Petersen", "role: harbour master\nroom: 1\n", "Ines Petersen: role: harbour master"},
		{"en", "What is group adm used for?", "Groups", "adm\nGroup adm is used for system monitoring tasks.\n", "adm: Group adm is used"},
		{"de", "Wann wurde die Brücke eröffnet?", "Brücke", "Die Brücke wurde mit einer Rede eröffnet. Das war am 4. Mai 1890.", "1890"},
		{"fr", "Qui a fondé le port ?", "Port", "Le port est ancien. Le port a été fondé par Jeanne Morel.", "Jeanne Morel"},
		{"zh", "港口是哪一年开放的？", "港口", "港口很大。港口于1890年向所有船只开放。", "1890"},
		{"zh", "日本的首都是哪里？", "东京", "他在北京工作。东京是日本的首都。", "东京是日本的首都。"},
		{"th", "เมืองหลวงของประเทศไทยคือเมืองใด", "ไทย", "แมวนอนหลับ\nกรุงเทพมหานครเป็นเมืองหลวงของประเทศไทย", "กรุงเทพมหานคร"},
		{"en", "What is a lease?", "Lease", "# Lease\n\nWhat is a lease?\n\nIf the lease does not end with\n\n", ""},
		{"en", "Who won the football cup?", "Years", "2018. It was a good year for cider.", ""},
		{"en", "harbour", "Harbour", "Harbour. The harbour!", ""},
	} {
		var got []string
		passages := []extract.Passage{{Title: c.title, Text: c.content}}
		found, _ := extract.ChooseExtracts(text.LanguageOf(c.language), c.question, weighEqually, 1, passages)
		for _, found := range found {
			got = append(got, found.Text+" [1]")
		}
		if all := strings.Join(got, "\n"); len(got) > 2 || (c.want == "") != (all == "") || !strings.Contains(all, c.want) ||
			strings.ContainsAny(all, "#|`") || strings.Contains(all, "Build") || strings.Contains(all, "question of many") {
			t.Errorf("%s: %q", c.question, got)
		}
	}
}

// A title, a wrapped line of a list and a name with dots are no ends of sentences, and none begins within another item.
// A row of a table, an entry of a log and a line of markup stand for themselves.
func TestAnExtractBeginsWhereASentenceDoes(t *testing.T) {
	for _, c := range []struct{ question, content, want string }{
		{"Why was the bridge closed?", "Bridge report\n=====\n\nThe bridge was closed for cracks<br>in three girders.\n",
			"The bridge was closed for cracks in three girders."},
		{"What is a ledger key made of?", "* A chunk has an ordinal. It is its place\n* *paid result*: the ledger's key is made of a model, " +
			"and of all its parameters, with a\n  text.\n", "paid result: the ledger's key is made of a model, and of all its parameters, with a text."},
		{"What does docs.*.attachments do?", "With `docs.*.attachments: true` each file attached to a mail is a document.",
			"With docs.*.attachments: true each file attached to a mail is a document."},
		{"What is the adult return fare over the bridge?", "Fares:\n\n" + fares, "Fare · Adult · Child: Return · £7.92 · £3.96"},
		{"What is the adult return fare?", "Fares:\n\n" + fares + "| Return of seniors | free | – |\n| Return of adult seniors | free | – |\n",
			"Fare · Adult · Child: Return of adult seniors · free · –"},
		{"zeppelin landed", "2026-03-14 09:40:01 INFO all calm at pier four\n2026-03-14 09:42:07 ERROR zeppelin landed. Retrying\n" +
			"2026-03-14 09:43:01 INFO all calm\n", "2026-03-14 09:42:07 ERROR zeppelin landed. Retrying"},
		{"Which key was accepted?", "Mar 14 09:42:07 host sshd[12]: Accepted key 7f3a for root\nMar 14 09:42:09 host sshd[12]: Closed\n",
			"Mar 14 09:42:07 host sshd[ 12 ]: Accepted key 7f3a for root"},
		{"What was sent of harbour.html?", "10.0.0.1 - - [14/Mar/2026:09:42:07 +0000] \"GET /harbour.html\" 200 12\n" +
			"10.0.0.2 - - [14/Mar/2026:09:42:08 +0000] \"GET /b.html\" 200 9\n",
			"10.0.0.1 - - [14/Mar/2026:09:42:07 +0000] \"GET /harbour.html\" 200 12"},
		{"What is the exit status when constants are missing?", ".TH TIDE 1 \"2026\"\n.SH EXIT STATUS\n3 when the constants of the pier are missing.\n",
			"EXIT STATUS: 3 when the constants of the pier are missing."},
		{"What are the limits of wind?", "\\documentclass{article}\n\\begin{document}\n\\section{Wind}\nThe limits are 38 knots for ferries.\n",
			"Wind: The limits are 38 knots for ferries."},
		{"What is the skating price?", slide + "The town set the prices in April.\n", "Rink: Skating price 6.70 euros"},
		{"What does the machine repair cost?", slide, "Rink: Machine repair costs 1,300 euros"},
		{"How many skaters may be on the ice?", "Rink\n\nNo dogs in the hall\nAt most 40 skaters on the ice at once\nTrainer: Nils Aho",
			"Rink: At most 40 skaters on the ice at once"},
		{"What does a canoe cost?", "Canoe cost:\n\nOpen all day\nHire 9 euros a day\nDeposit 20 euros\n", "Canoe cost: Hire 9 euros a day"},
		{"Who built the harbour tower?", "In May the tower of\nKiel harbour was built by\nOle Sand of Kiel.", "Kiel harbour was built by: Ole Sand of Kiel."},
		{"Who is the guide?", "## Notes\n\n[Guide]: doc/guide.md#guide\n[Guide pages]: guides.html 'Guide'\n.. _guide: x/guide\n" +
			"<!-- the guide\nis Ole Sand -->\n\nGuide: Ada Moe\n", "Notes: Guide: Ada Moe"},
		{"What was found on deck?", "Dear all,\n\nA brown spaniel called Biscuit was found on the deck.\n", "A brown spaniel called Biscuit was found on the deck."},
	} {
		passages := []extract.Passage{{Title: "Bridge report", Text: c.content}}
		got, _ := extract.ChooseExtracts(text.LanguageOf("en"), c.question, weighEqually, 1, passages)
		assert.True(t, len(got) == 1 && got[0].Text == c.want, "%s: %+v", c.question, got)
	}
}

const slide = "# Rink\n\nSkating price 6.70 euros\nSkate hire 4 euros\nMachine repair costs 1,300 euros\n\nNotes: "

const fares = "| Fare | Adult | Child |\n| Single | £4.75 | £2.38 |\n| Return | £7.92 | £3.96 |\n"

// The second extract is of the passage that the first one names, with what it lacks of the question.
func TestASecondExtractGoesOnFromTheFirst(t *testing.T) {
	passages := []extract.Passage{
		{Title: "Jump for Glory", Text: "Jump for Glory is a film directed by Raoul Walsh in London. It was a success."},
		{Title: "Glory", Text: "Glory is a film of 1989 about war and its glory."},
		{}, // of one that is not in the context
		{Title: "Raoul Walsh", Text: "He was born in New York. His spouse was Miriam Cooper. He liked boats."},
	}
	got, _ := extract.ChooseExtracts(text.LanguageOf("en"), "Who is the spouse of the director of Jump for Glory?",
		weighEqually, 1, passages)
	assert.True(t, len(got) == 2 && got[0].Passage == 0 && got[1].Passage == 3 &&
		strings.Contains(got[1].Text, "Miriam Cooper"), "%+v", got)
}

func TestMarkupIsWhatAReaderIsNotShown(t *testing.T) {
	for content, want := range map[string]string{
		"# Title\n\n1\\. [Intro](#intro) and **bold**, *soft*, `code`": "Title\n\n1. Intro and bold, soft, code",
		"[![CI](b.svg)](u) ![x](y) <img src=\"a\"> <a href='b'>go</a>": "   go",
		"| a | b |\n|---|:-:|\n| 1 | 2 |":                              "a · b\n\n1 · 2",
		"```sh\n# not a heading | grep *x*\n```\n> said &nbsp;so":      "\n# not a heading | grep *x*\n\nsaid so",
		"5 * 3 * 2, a[i], map<string>, snake_case_name, C#, x | y":     "5 * 3 * 2, a[i], map<string>, snake_case_name, C#, x | y",
		"| a `x*y*` | | \\| |\r\n[**b**](http://x_y_z/(1)) [[1]](u)":   "a x*y* · · |\nb [1]",
		"😀 **né**":          "😀 né",
		"[]() ### []()Joey": " ### Joey",
		"see [Zap][z], [Apex][] a[i][j]\n[z]: https://x/y":                                 "see Zap, Apex a[i][j]\n",
		".TH T 1\n.SH NAME\n.B tide\n\\begin{x}\n\\section{Wind}\nWind":                    "\nNAME\ntide\n\nWind\nWind",
		":orphan:\n\nsee (`talk <https://x/1>`_) and `Zap`_, :ref:`a b <c>`, :py:func:`f`": "\n\nsee (talk) and Zap, a b, f",
		"at 10:30:`x`, `a`_b ``c`` key: `v`":                                               "at 10:30:x, a_b c key: v",
		"[note]: this is no address":                                                       "[note]: this is no address",
	} {
		runes := []rune(content)
		for _, span := range slices.Backward(extract.FindMarkup(content)) {
			shown := ""
			if string(runes[span.Start:span.End]) == "|" {
				shown = "·"
			}
			runes = slices.Concat(runes[:span.Start], []rune(shown), runes[span.End:])
		}
		assert.True(t, string(runes) == want, "%q: %q", content, string(runes))
	}
}

func TestEvidenceSaysWhatAnExtractLacks(t *testing.T) {
	crane := extract.Passage{
		Title:   "Cranes",
		Heading: []string{"Kestrel 700"},
		Text:    "The crane lifts 12 tonnes. Its firmware is 3.1.4.",
	}
	house := extract.Passage{
		Title: "House",
		Text:  "The greenhouse has a head gardener and is heated. Its rooms are warm and bright.",
	}
	of := func(content string) extract.Passage { return extract.Passage{Title: "Yard", Text: content} }
	for _, c := range []struct {
		language string
		question string
		passage  extract.Passage
		lacks    string
		fails    bool
	}{
		{"en", "What is the firmware of the Kestrel 800?", crane, "800", false},
		{"en", "What is the firmware of the Kestrel 700?", crane, "", false},
		{"en", "What is the firmware of the Osprey?", crane, "Osprey", false},
		{"en", "Who is the head of the greenhouse?", house, "", true},
		{"en", "How many rooms has the greenhouse?", house, "", true},
		{"en", "What is the email of the greenhouse?", house, "", true},
		{"en", "Is the greenhouse heated?", house, "", false},
		{"en", "When was Astrid Kvale born?", of("Astrid Kvale was born in Tromso and joined the company in 2003."), "", true},
		{"en", "When was Astrid Kvale born?", of("Astrid Kvale was born in Tromso in 1961 and has 3 barometers."), "", false},
		{"en", "When does the ferry leave Oban?", of("The ferry leaves Oban at 9 every day."), "", false},
		{"en", "What is the status when the tide is missing?", of("The status is 3 when the tide is missing."), "", false},
		{"de", "Wann wurde der Kran gebaut?", of("Der Kran wurde in Bremen gebaut und hebt 12 Tonnen."), "", true},
		{"fr", "Quand la grue a-t-elle été construite ?", of("La grue a été construite à Brest et porte 12 tonnes."), "", true},
		{"es", "¿Cuándo nació Hamish Orr?", of("Hamish Orr nació en Largs y entró en la empresa en 2001."), "", true},
		{"pt", "Quanto custa a grua?", of("A grua é cara e está no pátio."), "", true},
		{"pt", "Qual é o telefone do porto?", of("O telefone do porto fica na sala 12."), "", true},
		{"en", "How high is the tide on 2 June 2026?", of("date: 2026-06-02\nhigh_tide: 4.1 metres\n"), "", false},
		{"de", "Wie hoch ist die Tide am 2. Juni 2026?", of("Die Tide am 02.06.2026 war 4,1 Meter hoch."), "", false},
		{"en", "What is the phone number of Ada Moe?", of("To: Ada Moe; Date: 2025-01-14 09:12 +0000"), "", true},
		{"en", "What is the phone number of Ada Moe?", of("Signed for Ada Moe, 0161 555 0192."), "", false},
		{"en", "How old is Ada Moe?", of("Signatures: Ada Moe has 0161 555 0192."), "", true},
		{"en", "How old is Ada Moe?", of("Ada Moe is a pilot of 41 years."), "", false},
		{"de", "Wie alt ist Ada Moe?", of("Ada Moe ist in Kiel geboren, im Jahr 1961."), "", false},
		{"de", "Wie alt ist Ada Moe?", of("Ada Moe ist Lotsin und hat 3 Boote."), "", true},
		{"en", "How high is the lighthouse?", of("The lighthouse was automated in 1987 by Ada Moe."), "", true},
		{"en", "How high is the lighthouse?", of("The lighthouse is a tower of 31 m above the sea."), "", false},
		{"de", "Wie hoch ist die Miete?", of("Die Miete beträgt 1.840 Euro im Monat."), "", false},
		{"en", "How long is the ferry?", of("The ferry was built in 1968 and has a crew of 3."), "", true},
		{"en", "How long is the ferry?", of("ferry: Terna\nlength: 42\n"), "", false},
		{"en", "How heavy is the ferry?", of("The ferry takes 3 hours to Oban."), "", true},
		{"en", "What percentage of the rent is due?", of("Of the rent 300 pounds are due."), "", true},
		{"en", "What percentage of the rent is due?", of("Of the rent 30% are due."), "", false},
		{"en", "What is the length of the ferry?", of("The ferry is of 1968 and of Bergen."), "", true},
		{"en", "How many rooms has the tower?", of("The tower with its rooms is of 1874."), "", true},
		{"en", "How much is the rent?", of("The rent is as it was in 2019."), "", true},
		{"en", "When was the tower opened?", of("The tower was opened by 0192 and Ada Moe."), "", true},
		{"en", "Who was the first keeper?", of("The last keeper was Ada Moe."), "first", false},
		{"en", "Who was the first keeper?", of("The original keeper was Ada Moe."), "", false},
		{"en", "Which is the smallest boat?", of("The boat Terna is red and blue."), "smallest", false},
		{"de", "Welches ist das neueste Boot?", of("Das älteste Boot ist die Terna aus Kiel."), "neueste", false},
		{"en", "Who kept the tower before the war?", of("After the war Ada Moe kept the tower."), "before", false},
		{"en", "Who kept the tower before the war?", of("In the war Ada Moe kept the tower."), "", false},
		{"en", "Did Ada keep the tower first?", of("Ada kept the tower, and Ole kept boats."), "", false},
		{"en", "What is the first name of the keeper?", of("The keeper has a name, Ada."), "", false},
		{"en", "Was the rent paid in May 2024?", of("The rent was paid on 3 March 2024. It is high."), "May 2024", false},
		{"en", "Was the rent paid in May 2024?", of("The rent was paid on 2024-05-03."), "", false},
		{"en", "How high is the tide on 2 June 2026?", of("date: 2026-06-01\nhigh_tide: 3.9 metres\n"), "2 June 2026", false},
	} {
		found, evidence := extract.ChooseExtracts(text.LanguageOf(c.language), c.question, weighEqually, 2,
			[]extract.Passage{c.passage})
		assert.True(t, len(found) != 0 && strings.Join(evidence.Lacks, " ") == c.lacks && evidence.Fails == c.fails,
			"%s: %+v %+v", c.question, found, evidence)
		assert.True(t, evidence.Confidence(1) > 0.4 != evidence.IsPartial(), "%s: %g", c.question, evidence.Confidence(1))
	}
	refit := extract.Passage{
		Title: "vessel: Saint Olan",
		File:  "refits",
		Text:  "vessel: Saint Olan\nyard: Ardmaleish\ncost_gbp: 64900",
	}
	for _, c := range []struct {
		question string
		passage  extract.Passage
		high     bool
	}{
		{"What is the adult return fare?", of("Fares:\n\n" + fares), true},
		{"What is the adult fare?", of("Fares:\n\n" + fares), false},
		{"How much did the refit of the Saint Olan cost?", refit, true},
	} {
		_, evidence := extract.ChooseExtracts(
			text.LanguageOf("en"), c.question, weighEqually, 2, []extract.Passage{c.passage},
		)
		assert.Equal(t, c.high, evidence.Confidence(0.94) >= 0.7, "%s %g", c.question, evidence.Confidence(0.94))
	}
}
