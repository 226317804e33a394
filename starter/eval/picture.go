package eval

import (
	"fmt"
	"html"
	"slices"
	"strings"
)

// Measures of the picture, in pixels.
const pictureLeft, pictureTop, pictureWidth, barHeight = 170, 26, 500, 10

var methodColours = []string{"#1b4f8a", "#d98c26", "#5f8f4e", "#8a5fa3", "#777777"}

// SVG draws recall of every method on every set: a bar a method, darker up to the recall of fewer passages, with the
// interval of the last cut-off.
func (s *Suite) SVG() string {
	var bars strings.Builder
	var methods []string
	set, y := "", pictureTop
	for _, row := range s.Rows {
		if row.Set != set {
			set, y = row.Set, y+barHeight
			fmt.Fprintf(&bars, `<text x="%d" y="%d" text-anchor="end">%s</text>`, pictureLeft-8, y+barHeight-1,
				html.EscapeString(row.Set))
		}
		if !slices.Contains(methods, row.Method) {
			methods = append(methods, row.Method)
		}
		for _, recall := range row.Recall {
			fmt.Fprintf(&bars, `<rect x="%d" y="%d" width="%.1f" height="%d" fill="%s" fill-opacity="0.4"/>`, pictureLeft, y,
				pictureWidth*recall.Mean, barHeight-2, colourOf(slices.Index(methods, row.Method)))
		}
		if n := len(row.Recall); n > 0 && row.Recall[n-1].Low < row.Recall[n-1].High {
			middle := y + barHeight/2 - 1
			fmt.Fprintf(&bars, `<line x1="%.1f" x2="%.1f" y1="%d" y2="%d" stroke="#222"/>`,
				pictureLeft+pictureWidth*row.Recall[n-1].Low, pictureLeft+pictureWidth*row.Recall[n-1].High, middle, middle)
		}
		y += barHeight
	}
	var out strings.Builder
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" `+
		`font-size="11"><rect width="100%%" height="100%%" fill="white"/><text x="8" y="20" font-size="14">Recall in `+
		`percent of the first %s passages; darker: of fewer</text>`, pictureLeft+pictureWidth+30, y+30+14*len(methods),
		strings.Trim(strings.ReplaceAll(fmt.Sprint(s.Ks), " ", ", "), "[]"))
	for percent := 0; percent <= 100; percent += 20 {
		x := pictureLeft + pictureWidth*percent/100
		fmt.Fprintf(&out, `<line x1="%d" x2="%d" y1="%d" y2="%d" stroke="#ddd"/>`+
			`<text x="%d" y="%d" text-anchor="middle">%d</text>`, x, x, pictureTop, y, x, y+16, percent)
	}
	for i, method := range methods {
		fmt.Fprintf(&out, `<rect x="%d" y="%d" width="10" height="10" fill="%s"/><text x="%d" y="%d">%s</text>`, pictureLeft,
			y+22+14*i, colourOf(i), pictureLeft+16, y+31+14*i, html.EscapeString(method))
	}
	return out.String() + bars.String() + "</svg>\n"
}

func colourOf(method int) string { return methodColours[method%len(methodColours)] }
