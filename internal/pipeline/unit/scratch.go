package unit

import (
	"github.com/unweaver/unweaver/internal/methods/enrich"
	"github.com/unweaver/unweaver/internal/pipeline/run"
)

const enrichedFile run.File[[]enrich.Made] = "enriched.json"
