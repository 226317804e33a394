package office

import (
	"strings"

	"github.com/unweaver/unweaver/internal/document"
)

// symbols are what the font Symbol shows for the codes from ' ' to '~', and for those from 0xa1 to 0xfe; a blank for
// pieces of larger signs. wingdings are pairs of a code and what Wingdings shows for it.
const (
	symbols = " !∀#∃%&∋()∗+,−./0123456789:;<=>?≅ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ[∴]⊥_ αβχδεφγηιϕκλμνοπθρστυϖωξψζ{|}∼"
	further = "ϒ′≤⁄∞ƒ♣♦♥♠↔←↑→↓°±″≥×∝∂•÷≠≡≈…  ↵ℵℑℜ℘⊗⊕∅∩∪⊃⊇⊄⊂⊆∈∉∠∇®©™∏√⋅¬∧∨⇔⇐⇑⇒⇓" +
		"◊〈®©™∑           〉∫            "
	wingdings = "!✏(☎*✉F☞J☺L☹l●m❍n■o□q❑r❒u◆v❖w◆\u0081①\u0082②\u0083③\u0084④\u0085⑤\u0086⑥\u0087⑦\u0088⑧\u0089⑨\u008a⑩" +
		"\u008c❶\u008d❷\u008e❸\u008f❹\u0090❺\u0091❻\u0092❼\u0093❽\u0094❾\u0095❿\u009f•§▪¨◻Ø➢ß←à→á↑â↓è➔û✗ü✓ý☒þ☑"
)

// inFont returns what a font shows for a text: of a font of signs, its sign for each letter, or nothing for one that is
// not known; of another font the text.
func inFont(text, font string) string {
	font = strings.ToLower(font)
	known := font == "symbol" || strings.HasPrefix(font, "wingdings") || strings.HasPrefix(font, "webdings")
	return strings.Map(func(r rune) rune {
		code := r
		switch {
		case !known || r <= ' ' || r > 0xff && !document.IsPrivateUse(r):
			return r
		case r > 0xff: // how programs write a code of such a font
			code -= 0xf000
		}
		shown := ' '
		switch signs := []rune(wingdings); {
		case font == "symbol" && code >= ' ' && code <= '~':
			shown = []rune(symbols)[code-' ']
		case font == "symbol" && code >= 0xa1 && code < 0xff:
			shown = []rune(further)[code-0xa1]
		case font == "wingdings":
			for at := 0; at < len(signs); at += 2 {
				if signs[at] == code {
					shown = signs[at+1]
				}
			}
		}
		if shown == ' ' && code != ' ' {
			return -1
		}
		return shown
	}, text)
}
