package neural

import (
	"math"

	"github.com/unweaver/unweaver/internal/model/neural/kernel"
)

// scaling is a layer normalisation.
type scaling struct{ weight, bias []float32 }

type layer struct {
	qkv, join, up, down linear
	afterJoin           scaling
	afterDown           scaling
}

// encoder is a transformer of the BERT kind: embeddings, layers of attention and of two linear maps, each with a
// normalisation behind it.
type encoder struct {
	hidden, heads, positions int
	epsilon                  float64
	word                     func(out []float32, id int32)
	position                 []float32 // with the embedding of token type 0
	first                    scaling
	layers                   []layer
}

// headSize is how many numbers a head of attention has.
const headSize = 32

// encodeTexts gives the mean of the last layer over the tokens of each text, scaled to length 1. What a text gets
// depends on it alone: texts lie side by side in the linear maps, whose rows do not know of each other.
func (e *encoder) encodeTexts(s *space, texts [][]int32) [][]float32 {
	rows := 0
	for _, ids := range texts {
		rows += len(ids)
	}
	h := e.hidden
	x, y := resizeSlice(&s.x, rows*h), resizeSlice(&s.y, rows*h)
	t := 0
	for _, ids := range texts {
		for place, id := range ids {
			row := x[t*h : (t+1)*h]
			e.word(row, id)
			for i, p := range e.position[place*h : (place+1)*h] {
				row[i] += p
			}
			t++
		}
	}
	clear(y)
	e.normaliseRows(x, y, e.first)
	for i := range e.layers {
		l := &e.layers[i]
		qkv := resizeSlice(&s.qkv, rows*3*h)
		l.qkv.applyLayer(s, qkv, x, rows)
		from := 0
		for _, ids := range texts {
			to := from + len(ids)
			e.attendText(s, y[from*h:to*h], qkv[from*3*h:to*3*h], len(ids))
			from = to
		}
		joined := resizeSlice(&s.qkv, rows*h)
		l.join.applyLayer(s, joined, y, rows)
		e.normaliseRows(x, joined, l.afterJoin)
		mid := resizeSlice(&s.mid, rows*l.up.out)
		l.up.applyLayer(s, mid, x, rows)
		kernel.GELU(mid)
		l.down.applyLayer(s, y, mid, rows)
		e.normaliseRows(x, y, l.afterDown)
	}
	out := make([][]float32, len(texts))
	from := 0
	for i, ids := range texts {
		out[i] = averageRows(x[from*h:(from+len(ids))*h], h)
		from += len(ids)
	}
	return out
}

// averageRows returns the average of rows, scaled to length 1.
func averageRows(rows []float32, width int) []float32 {
	sums := make([]float64, width)
	for at := 0; at < len(rows); at += width {
		for i, x := range rows[at : at+width] {
			sums[i] += float64(x)
		}
	}
	square := 0.0
	for _, x := range sums {
		square += float64(x * x)
	}
	out := make([]float32, width)
	if !(square > 0) {
		out[0] = 1
		return out
	}
	factor := 1 / math.Sqrt(square)
	for i, x := range sums {
		out[i] = float32(x * factor)
	}
	return out
}

// normaliseRows adds y to x and normalises its rows.
func (e *encoder) normaliseRows(x, y []float32, n scaling) {
	for at := 0; at < len(x); at += e.hidden {
		kernel.Normalise(x[at:at+e.hidden], y[at:at+e.hidden], n.weight, n.bias, e.epsilon)
	}
}

// unbiased is the bias of what has none.
var unbiased [headSize]float32

// attendText gives the attention of one text: qkv has query, key and value of each of its tokens side by side.
func (e *encoder) attendText(s *space, out, qkv []float32, tokens int) {
	h := e.hidden
	wide, padded := kernel.RoundUp(tokens, kernel.Width), kernel.RoundUp(tokens, kernel.Tokens)
	query, key := resizeSlice(&s.query, padded*headSize), resizeSlice(&s.key, wide*headSize)
	value, start := resizeSlice(&s.value, wide*headSize), resizeSlice(&s.start, wide)
	queryWorth, keyWorth := resizeSlice(&s.worth, tokens), resizeSlice(&s.keyWorth, wide)
	mask, chance := resizeSlice(&s.mask, wide), resizeSlice(&s.chance, wide)
	clear(keyWorth)
	clear(mask)
	for t := tokens; t < wide; t++ {
		mask[t] = float32(math.Inf(-1))
	}
	scores := resizeSlice(&s.sums, padded*wide)
	chances := resizeSlice(&s.whole, padded*wide)
	scale := float32(1 / math.Sqrt(headSize))
	for head := range e.heads {
		clear(key)
		clear(start)
		at := head * headSize
		for t := range tokens {
			from := qkv[t*3*h+at:]
			queryWorth[t] = float32(kernel.Quantise(query[t*headSize:], from[:headSize]) * scale)
			keyWorth[t] = packKey(key, start, t, from[h:h+headSize])
		}
		valueWorth := e.packValues(value, qkv[2*h+at:], tokens, wide)
		kernel.Mul(scores, query, padded, headSize, key, start, wide)
		var mass [512]int32
		for t := range tokens {
			row := t * wide
			mass[t] = kernel.Spread(chances[row:], scores[row:row+wide], queryWorth[t], keyWorth, mask, chance)
		}
		clear(start)
		kernel.Mul(scores, chances, padded, wide, value, start, headSize)
		for t := range tokens {
			sums := scores[t*headSize : (t+1)*headSize]
			kernel.Scale(out[t*h+at:], sums, 1/float32(mass[t]), valueWorth[:], unbiased[:])
		}
	}
}

// packKey writes the key of a token as a row of panels and returns what one of it is worth.
func packKey(panels []int8, start []int32, t int, key []float32) float32 {
	top := kernel.MaxAbsolute(key)
	if !(top > 0) {
		return 0
	}
	factor := kernel.Largest / top
	sum := int32(0)
	for c := 0; c < len(key); c += kernel.Group {
		group := panels[kernel.PlaceOf(t, c, headSize):]
		for i, v := range key[c : c+kernel.Group] {
			q := kernel.RoundNearest(float32(v * factor))
			group[i] = int8(q)
			sum += q
		}
	}
	start[t] = -kernel.Zero * sum
	return top / kernel.Largest
}

// packValues packs the values of a head, a number of it a row and a token a column, and gives what one of each row is
// worth.
func (e *encoder) packValues(packed []int8, from []float32, tokens, wide int) (worth [headSize]float32) {
	for t := range tokens {
		for c, v := range from[t*3*e.hidden : t*3*e.hidden+headSize] {
			worth[c] = max(worth[c], v, -v)
		}
	}
	var factor [headSize]float32
	for c, top := range worth {
		if worth[c] = top / kernel.Largest; top > 0 {
			factor[c] = kernel.Largest / top
		}
	}
	clear(packed)
	for t := range tokens {
		column := packed[kernel.PlaceOf(0, t, wide):]
		for c, v := range from[t*3*e.hidden : t*3*e.hidden+headSize] {
			column[c*kernel.Group] = int8(kernel.RoundNearest(float32(v * factor[c])))
		}
	}
	return worth
}
