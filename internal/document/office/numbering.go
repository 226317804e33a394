package office

import (
	"encoding/xml"
	"strconv"
	"strings"

	"github.com/unweaver/unweaver/internal/document"
)

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
