package api

import (
	"context"
	"net/http"

	"github.com/unweaver/unweaver/internal/methods/gem/gemmethod"
	"github.com/unweaver/unweaver/internal/retrieve"
)

// mostNodes is how many chunks the themes of a memory are reported with: as many as can be looked at.
const mostNodes = 300

// serveMemory answers GET …/memory.
func serveMemory(
	ctx context.Context, request *http.Request, generation *retrieve.Generation, _ int,
) (any, error) {
	nodes, err := readNumber(request.URL.Query(), "nodes", 1, mostNodes, mostNodes)
	if err != nil {
		return nil, err
	}
	return gemmethod.ReadView(ctx, generation, nodes)
}
