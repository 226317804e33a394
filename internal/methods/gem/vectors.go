package gem

import (
	"math"
	"strconv"

	"github.com/unweaver/unweaver/internal/fault"
)

// Rows are vectors of one dimension, one after another.
type Rows struct {
	Dim  int
	Data []float32
}

// NewRows has room for so many vectors.
func NewRows(dim, vectors int) Rows { return Rows{Dim: dim, Data: make([]float32, 0, dim*vectors)} }

// Len returns the number of vectors.
func (r Rows) Len() int {
	if r.Dim == 0 {
		return 0
	}
	return len(r.Data) / r.Dim
}

// Row returns vector i; it shares memory with the rows.
func (r Rows) Row(i int) []float32 { return r.Data[i*r.Dim : (i+1)*r.Dim] }

// Append adds a vector of the rows' dimension; the first one sets it.
func (r *Rows) Append(vector []float32) {
	if r.Dim == 0 {
		r.Dim = len(vector)
	}
	r.Data = append(r.Data, vector...)
}

// ToUnit returns a vector at length 1, in new memory. One of zeros stays so: what has no direction is near nothing.
func ToUnit(vector []float32) []float32 {
	sum := 0.0
	for _, x := range vector {
		sum += float64(float64(x) * float64(x))
	}
	out := make([]float32, len(vector))
	if !(sum > 0) {
		return out
	}
	length := math.Sqrt(sum)
	for i, x := range vector {
		out[i] = float32(float64(x) / length)
	}
	return out
}

// AverageQuestion returns the vector v_ij of a question on a text: the mean of both directions, at length 1.
func AverageQuestion(question, text []float32) []float32 {
	q, b := ToUnit(question), ToUnit(text)
	for i := range q {
		q[i] += b[i]
	}
	return ToUnit(q)
}

// Mean returns u_i of a node: the mean of its averaged questions, which are of unit length. A node without questions is
// compared by its text: its mean is the text's direction.
func Mean(text []float32, averaged [][]float32) []float32 {
	if len(averaged) == 0 {
		return ToUnit(text)
	}
	sum := make([]float64, len(text))
	for _, v := range averaged {
		for i, x := range v {
			sum[i] += float64(x)
		}
	}
	out := make([]float32, len(text))
	for i, x := range sum {
		out[i] = float32(x / float64(len(averaged)))
	}
	return out
}

// Nodes are the vectors that a graph is made of: row i of Mean is u_i, row i of Base is b_i.
type Nodes struct{ Mean, Base Rows }

// Len returns the number of nodes.
func (n Nodes) Len() int { return n.Base.Len() }

// checkNodes finds what no graph can be made of: rows that are missing, and what is no number.
func (n Nodes) checkNodes() error {
	bad := func(why string) error {
		return fault.InvalidParam.At("make a similarity graph", why).
			Advise("give one mean vector and one text vector for each node, all of one dimension")
	}
	if n.Mean.Dim != n.Base.Dim || len(n.Mean.Data) != len(n.Base.Data) {
		return bad(strconv.Itoa(n.Mean.Len()) + " mean vectors of dimension " + strconv.Itoa(n.Mean.Dim) + ", " +
			strconv.Itoa(n.Base.Len()) + " text vectors of dimension " + strconv.Itoa(n.Base.Dim))
	}
	if n.Base.Dim > 0 && len(n.Base.Data)%n.Base.Dim != 0 {
		return bad("vectors of dimension " + strconv.Itoa(n.Base.Dim) + " of which the last is cut off")
	}
	for _, rows := range []Rows{n.Mean, n.Base} {
		for i, x := range rows.Data {
			if x-x != 0 { // infinite, or no number
				return bad("vector " + strconv.Itoa(i/rows.Dim) + " holds a value that is no finite number")
			}
		}
	}
	return nil
}

// weighEdge returns W_ij for i != j before clipping. It has the same bits both ways.
func (n Nodes) weighEdge(i, j int) float64 {
	if i > j {
		i, j = j, i
	}
	ui, uj, bi, bj := n.Mean.Row(i), n.Mean.Row(j), n.Base.Row(i), n.Base.Row(j)
	uj, bi, bj = uj[:len(ui)], bi[:len(ui)], bj[:len(ui)]
	var forth, back float64
	for k := range ui {
		forth += float64(float64(ui[k]) * float64(bj[k]))
		back += float64(float64(bi[k]) * float64(uj[k]))
	}
	return (forth + back) / 2
}

// dot returns the product of a stored vector and one of doubles.
func dot(row []float32, v []float64) float64 {
	v = v[:len(row)]
	var a, b, c, d float64
	k := 0
	for ; k+4 <= len(row); k += 4 {
		a += float64(float64(row[k]) * v[k])
		b += float64(float64(row[k+1]) * v[k+1])
		c += float64(float64(row[k+2]) * v[k+2])
		d += float64(float64(row[k+3]) * v[k+3])
	}
	for ; k < len(row); k++ {
		a += float64(float64(row[k]) * v[k])
	}
	return (a + b) + (c + d)
}
