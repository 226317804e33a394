package office

import (
	"encoding/xml"
	"regexp"
	"strconv"
	"strings"

	"github.com/unweaver/unweaver/internal/document"
)

// wordStyle is what a style says of its paragraphs, or of its runs.
type wordStyle struct {
	level  int // of the heading that it is
	base   string
	hidden bool
	number string
	depth  int
}

// titleLevel is the level of the style of a document's title.
const titleLevel = -1

var headingStyle = regexp.MustCompile(`(?i)^heading ?([1-9])$`)

func levelOf(style string) int {
	if strings.EqualFold(style, "title") {
		return titleLevel
	}
	if found := headingStyle.FindStringSubmatch(style); found != nil {
		return int(found[1][0] - '0')
	}
	return 0
}

// maxStyles of a document are read.
const maxStyles = 20_000

// readStyles learns which styles are headings, of lists, or hide: ids are written in the language of the program, names
// are not.
func (w *wordReader) readStyles(part string) error {
	id, count := "", 0
	return w.parts.walkTokens(part, func(token xml.Token, _ int) error {
		start, ok := token.(xml.StartElement)
		if !ok {
			return nil
		}
		value, style := attrOf(start, "val"), w.styles[id]
		switch start.Name.Local {
		case "style":
			if count++; count > maxStyles {
				return document.OverMax(w.parts.object, "memory", w.parts.limits.Memory, "it has too many styles")
			}
			id = attrOf(start, "styleId")
			return nil
		case "name":
			if level := levelOf(value); level != 0 {
				style.level = level
			}
		case "basedOn":
			style.base = value
		case "vanish":
			style.hidden = isTrue(value)
		case "numId":
			style.number = value
		case "ilvl":
			style.depth, _ = strconv.Atoi(value)
		case "outlineLvl":
			if level, err := strconv.Atoi(value); err == nil && level >= 0 && level < 9 && style.level == 0 {
				style.level = level + 1
			}
		}
		if id != "" {
			w.styles[id] = style
		}
		return nil
	})
}

// styleOf returns a style with what it has of those that it is based on.
func (w *wordReader) styleOf(id string) wordStyle {
	style, known := w.styles[id]
	if !known {
		style.level = levelOf(id)
	}
	base := style.base
	for range 10 {
		above, known := w.styles[base]
		if !known {
			break
		}
		if style.level == 0 && above.level > 0 {
			style.level = above.level
		}
		if style.number == "" {
			style.number, style.depth = above.number, max(style.depth, above.depth)
		}
		style.hidden = style.hidden || above.hidden
		base = above.base
	}
	return style
}

func (w *wordReader) applyStyle(id string) {
	style := w.styleOf(id)
	w.styled = style.hidden
	switch {
	case style.level == titleLevel:
		w.level, w.titled = 1, true
	case style.level > 0:
		w.level = style.level
	case strings.HasPrefix(id, "ListBullet"), strings.HasPrefix(id, "ListNumber"):
		w.list = 1
	}
	if style.number != "" && style.number != "0" {
		w.number, w.list = style.number, 1+min(max(style.depth, 0), 8)
	}
}

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

// numbering gives items of lists the numbers that they are shown with.
type numbering struct {
	lists map[string]*numberedList // by the id of what they are made from
	uses  map[string]string        // which list an id of paragraphs means
	again map[string]map[int]int   // of such an id, at which number levels begin again
	begun map[string]bool          // ids that were used
}

// longestMark is how many characters stand before an item of a list at most, and in what says which.
const longestMark = 100

// listLevels are those that a list has.
const listLevels = 9

// numberedList is a list: its levels, and where it stands.
type numberedList struct {
	levels [listLevels]listLevel
	at     [listLevels]int // -1: not begun
}

type listLevel struct {
	first  int
	format string
	text   string
}

// read learns the lists of a document.
func (n *numbering) read(parts *parts, name string) error {
	*n = numbering{
		lists: map[string]*numberedList{}, uses: map[string]string{}, again: map[string]map[int]int{},
		begun: map[string]bool{},
	}
	list, use, depth, count := &numberedList{}, "", 0, 0
	return parts.walkTokens(name, func(token xml.Token, _ int) error {
		start, ok := token.(xml.StartElement)
		if !ok {
			return nil
		}
		value := attrOf(start, "val")
		level := &list.levels[depth]
		switch start.Name.Local {
		case "abstractNum", "num":
			if count++; count > maxStyles {
				return document.OverMax(parts.object, "memory", parts.limits.Memory, "it has too many lists")
			}
			list, use, depth = &numberedList{}, attrOf(start, "numId"), 0
			for i := range list.levels {
				list.levels[i], list.at[i] = listLevel{first: 1, format: "bullet"}, -1
			}
			if id := attrOf(start, "abstractNumId"); id != "" {
				n.lists[id] = list
			}
		case "abstractNumId":
			n.uses[use] = value
		case "lvl", "lvlOverride":
			number, _ := strconv.Atoi(attrOf(start, "ilvl"))
			depth = min(max(number, 0), listLevels-1)
			list.levels[depth].format = "decimal"
		case "start":
			level.first, _ = strconv.Atoi(value)
		case "startOverride":
			if n.again[use] == nil {
				n.again[use] = map[int]int{}
			}
			n.again[use][depth], _ = strconv.Atoi(value)
		case "numFmt":
			level.format = value
		case "lvlText":
			level.text = document.CutTitle(value, longestMark)
		}
		return nil
	})
}

// next returns what stands before the next item of a list, with a blank: its number, or the mark of one without.
func (n *numbering) next(id string, depth int) string {
	list := n.lists[n.uses[id]]
	if list == nil {
		return "- "
	}
	if !n.begun[id] {
		n.begun[id] = true
		for level, first := range n.again[id] {
			list.at[level] = first - 1
		}
	}
	depth = min(depth, listLevels-1)
	level := list.levels[depth]
	if list.at[depth]++; list.at[depth] == 0 && level.first != 0 {
		list.at[depth] = level.first
	}
	for below := depth + 1; below < listLevels; below++ {
		list.at[below] = -1
	}
	if level.format == "bullet" {
		return "- "
	}
	text := level.text
	for i := depth; i >= 0; i-- {
		place := "%" + strconv.Itoa(i+1)
		if !strings.Contains(text, place) {
			continue
		}
		if list.at[i] < 0 {
			list.at[i] = list.levels[i].first
		}
		text = strings.ReplaceAll(text, place, document.FormatCounter(list.at[i], list.levels[i].format))
	}
	if text = document.CutTitle(text, longestMark); text == "" {
		return ""
	}
	return text + " "
}
