package files

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"
	"sync"
	"unsafe"
)

// Where the vectors of a part are mostly small numbers beside few large ones, as features that are hashed make them, so
// are questions, and few dimensions decide a score. The codes of such a part are kept once more, dimension by dimension
// and each as one of 16 levels, so that a search reads the dimensions that count in its question and no others: about
// 65 bytes a row where signs take 128, and its estimates are nearer to the scores, since no number is spread over all
// dimensions and each has four bits.
//
// The rows are in blocks of rowsPerStripe. A block holds a stripe for each dimension, in which 32 bytes are the levels
// of 64 rows that follow each other: in the low halves those of the first 32 rows, in the high halves of the others.

const (
	columnsMagic = "UWCOLS1\x00"
	columnsEnd   = ".columns"
	columnsHead  = indexHead + 4*levelsOfCode

	levelsOfCode  = 16
	rowsPerGroup  = 2 * rowsAtOnce
	rowsPerStripe = 2050 * rowsPerGroup // at most
)

const (
	concentratedRows  = 256  // of a part that are looked at, at even distances
	concentratedShare = 0.75 // of the squares of a row's numbers that the largest eighth of them has, on average
)

// askedShares of the squares of a question's numbers are asked for, the largest first: of all but the shortest lists
// nearly all, since each row that has to be looked at for what was left out costs as much as a hundred that are summed.
var askedShares = [...]float64{0.92, 0.98}

// precisionOf returns the place in askedShares for a list of n rows.
func precisionOf(n int) int {
	if n <= indexedAsks[0] {
		return 0
	}
	return 1
}

// isConcentrated reports whether few numbers of a part's rows say most of what they say.
func (p *part) isConcentrated() bool {
	sampled := min(p.n, concentratedRows)
	squares := make([]int, p.dim)
	shares := 0.0
	for i := range sampled {
		all, largest := 0, 0
		for j, code := range p.codesAt(i * p.n / sampled) {
			squares[j] = int(code) * int(code)
			all += squares[j]
		}
		slices.Sort(squares)
		for _, square := range squares[p.dim-p.dim/8:] {
			largest += square
		}
		if all > 0 {
			shares += float64(largest) / float64(all)
		}
	}
	return shares >= concentratedShare*float64(sampled)
}

// levels are what codes are rounded to.
type levels struct {
	level  [256]byte // the level of a code, by its byte
	values [levelsOfCode]float32
}

// levelRows is how many rows of a part its levels are fitted to, at even distances.
const levelRows = 4096

// fittedLevels returns those levels that lie nearest to the codes of a part: of all ways to cut the range of codes the
// one with the least squares of differences, found by dynamic programming. They depend on nothing but the rows.
func (p *part) fittedLevels() levels {
	// Sums over all codes below one, of how many there are, themselves and their squares: whole numbers, exact.
	var count, sum, square [257]float64
	sampled := min(p.n, levelRows)
	for i := range sampled {
		for _, code := range p.codesAt(i * p.n / sampled) {
			count[int(code)+129]++
		}
	}
	for i := 1; i <= 256; i++ {
		code := float64(i - 129)
		sum[i] = sum[i-1] + code*count[i]
		square[i] = square[i-1] + code*code*count[i]
		count[i] += count[i-1]
	}
	mean := func(low, high int) float64 {
		if count[high] == count[low] {
			return 0
		}
		return (sum[high] - sum[low]) / (count[high] - count[low])
	}
	off := func(low, high int) float64 {
		between := sum[high] - sum[low]
		if between == 0 {
			return square[high] - square[low]
		}
		return square[high] - square[low] - between*between/(count[high]-count[low])
	}
	var least [levelsOfCode + 1][257]float64
	var from [levelsOfCode + 1][257]int
	for high := range least[0] {
		least[0][high] = math.Inf(1)
	}
	least[0][0] = 0
	for n := 1; n <= levelsOfCode; n++ {
		for high := range least[n] {
			least[n][high] = math.Inf(1)
			for low := range high + 1 {
				if squares := least[n-1][low] + off(low, high); squares < least[n][high] {
					least[n][high], from[n][high] = squares, low
				}
			}
		}
	}
	var out levels
	high := 256
	for n := levelsOfCode; n > 0; n-- {
		low := from[n][high]
		out.values[n-1] = float32(mean(low, high))
		for i := low; i < high; i++ {
			out.level[byte(int8(i-128))] = byte(n - 1)
		}
		high = low
	}
	return out
}

// columned is the content of an index by columns.
type columned struct {
	p       *part
	values  [levelsOfCode]float32
	stripes []byte
}

// columnsIn views the sections of a mapped file.
func columnsIn(p *part, data []byte) *columned {
	c := &columned{p: p, stripes: data[columnsHead:columnsSize(p):columnsSize(p)]}
	copy(c.values[:], unsafe.Slice((*float32)(unsafe.Pointer(&data[indexHead])), levelsOfCode))
	return c
}

// columnsSize returns the size of the file without its checksum.
func columnsSize(p *part) int {
	last := (p.n - 1) / rowsPerStripe * rowsPerStripe
	return columnsHead + p.dim*(last/2+stripeBytes(p, last))
}

// stripeBytes returns how long the stripes of the block are that begins with a row: an odd number of the lines of a
// cache, since stripes at distances of a power of two would fall on the same places of it.
func stripeBytes(p *part, low int) int {
	const line = 64
	lines := (min(p.n-low, rowsPerStripe) + 2*line - 1) / (2 * line)
	return line * (lines | 1)
}

// columnsHeadOf returns what the file begins with.
func columnsHeadOf(p *part, keep measures, values [levelsOfCode]float32) []byte {
	out := headOf(columnsMagic, p, keep)
	for _, value := range values {
		out = binary.LittleEndian.AppendUint32(out, math.Float32bits(value))
	}
	return out
}

// columnTables are a question as columns are asked: the dimensions that are looked up, an even number of them, and for
// each the products of its number with the levels, as bytes. A dimension whose products do not fit a byte is there
// several times, with a share of them each.
type columnTables struct {
	tables
	dims []int32
}

// timesAtMost is how often a dimension may be looked up; apartAt is the place, by size, of the number that need not be.
const (
	timesAtMost = 8
	apartAt     = 16
)

// prepareTables prepares a question for a list of n rows.
func (c *columned) prepareTables(question []float32, n int) columnTables {
	dims := selectDims(question, askedShares[precisionOf(n)])
	if len(dims) == 0 {
		return columnTables{}
	}
	lowest, highest := slices.Min(c.values[:]), slices.Max(c.values[:])
	width := func(dim int32) float64 { return math.Abs(float64(question[dim])) * float64(highest-lowest) }
	// Two bytes are added before they are widened, and all of them fit 16 bits.
	most := min(127, math.MaxUint16/(len(dims)+timesAtMost*(len(dims)/apartAt+1)+1))
	step := max(width(dims[len(dims)/apartAt]), width(dims[0])/timesAtMost) / float64(most)
	var out columnTables
	least, looked := 0.0, 0
	for _, dim := range dims {
		low := math.Inf(1)
		for _, value := range c.values {
			low = min(low, float64(question[dim])*float64(value))
		}
		least += low
		times := 1
		if step > 0 {
			times = max(1, int(math.Ceil(width(dim)/step/float64(most)-1e-9)))
		}
		looked++
		for i := range times {
			out.dims = append(out.dims, dim)
			for _, value := range c.values {
				steps := 0
				if step > 0 {
					steps = int((float64(float64(question[dim])*float64(value)) - low) / step)
				}
				out.bytes = append(out.bytes, byte(min((steps+i)/times, most)))
			}
		}
	}
	if len(out.dims)%2 == 1 {
		out.dims = append(out.dims, out.dims[0])
		out.bytes = append(out.bytes, make([]byte, levelsOfCode)...)
	}
	out.step, out.least = float32(step), float32(least+step/2*float64(looked))
	return out
}

// selectDims gives the dimensions of the largest numbers of a question, so many that they have a share of its squares.
func selectDims(question []float32, share float64) []int32 {
	var dims []int32
	all := 0.0
	for i, x := range question {
		if x != 0 {
			dims = append(dims, int32(i))
			all += float64(x) * float64(x)
		}
	}
	size := func(dim int32) float32 { return max(question[dim], -question[dim]) }
	slices.SortFunc(dims, func(a, b int32) int { return cmp.Or(cmp.Compare(size(b), size(a)), cmp.Compare(a, b)) })
	got := 0.0
	for i, dim := range dims {
		if got >= share*all {
			return dims[:i]
		}
		got += float64(question[dim]) * float64(question[dim])
	}
	return dims
}

// groupSums are what the tables say of the rows of a group.
type groupSums [rowsPerGroup / rowsAtOnce][rowsAtOnce]uint16

// dimsAtOnce is how many stripes are read beside each other. A processor foresees what is read next of so many, and not
// of twice as many.
const dimsAtOnce = 16

// columnReader reads the sums of groups of rows; it is of one goroutine.
type columnReader struct {
	offsets []uint32 // of the stripes, in a block
	room    [rowsPerStripe / rowsPerGroup]groupSums
}

var columnReaders = sync.Pool{New: func() any { return new(columnReader) }}

// sumGroups adds up what the tables say of the groups of rows of the block that begins with a row; what it gives is
// valid until the next.
func (c *columned) sumGroups(r *columnReader, asked *columnTables, low int) []groupSums {
	length := stripeBytes(c.p, low)
	rows := min(c.p.n-low, rowsPerStripe)
	out := r.room[:(rows+rowsPerGroup-1)/rowsPerGroup]
	clear(out)
	r.offsets = r.offsets[:0]
	for _, dim := range asked.dims {
		r.offsets = append(r.offsets, uint32(int(dim)*length))
	}
	levels := c.stripes[c.p.dim*low/2:][:c.p.dim*length]
	for at := 0; at < len(r.offsets); at += dimsAtOnce {
		end := min(at+dimsAtOnce, len(r.offsets))
		ahead := r.offsets[end:min(end+dimsAtOnce, len(r.offsets))]
		columnSums(asked.bytes[levelsOfCode*at:levelsOfCode*end], r.offsets[at:end], levels, out, ahead)
	}
	return out
}

// columnSumsGo does what columnSums does, without assembly.
func columnSumsGo(tables []byte, offsets []uint32, levels []byte, out []groupSums) {
	for i, offset := range offsets {
		table := tables[levelsOfCode*i : levelsOfCode*(i+1)]
		for group := range out {
			at := int(offset) + rowsAtOnce*group
			for row, both := range levels[at : at+rowsAtOnce] {
				out[group][0][row] += uint16(table[both&15])
				out[group][1][row] += uint16(table[both>>4])
			}
		}
	}
}

// precisionAt implements sketch.
func (*columned) precisionAt(n int) int { return precisionOf(n) }

// estimateRows implements sketch.
func (c *columned) estimateRows(question []float32, n int, each func(low int, estimates []float32)) {
	asked := c.prepareTables(question, n)
	reader := columnReaders.Get().(*columnReader)
	defer columnReaders.Put(reader)
	var out [rowsPerGroup]float32
	for low := 0; low < c.p.n; {
		for _, summed := range c.sumGroups(reader, &asked, low) {
			rows := min(rowsPerGroup, c.p.n-low)
			for i := range rows {
				out[i] = asked.estimateScore(summed[i/rowsAtOnce][i%rowsAtOnce], c.p.scales[low+i])
			}
			each(low, out[:rows])
			low += rows
		}
	}
}
