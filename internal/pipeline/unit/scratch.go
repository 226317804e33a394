package unit

import (
	"github.com/unweaver/unweaver/internal/pipeline/run"
)

const enrichedFile run.File[[]Enriched] = "enriched.json"
