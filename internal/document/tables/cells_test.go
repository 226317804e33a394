package tables_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/document/tables"
)

// A quadratic search would not end: it compares 5·10¹¹ cells.
func TestNamesOfManyColumnsAreFoundInLinearTime(t *testing.T) {
	row := slices.Repeat([]string{strings.Repeat("x", 500)}, 500_000)
	assert.False(t, tables.NamesColumns([][]string{row, slices.Clone(row), append(slices.Clone(row[1:]), "y")}))
}
