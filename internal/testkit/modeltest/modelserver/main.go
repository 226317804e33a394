// Command modelserver is the model server of tests and benchmarks as a process of its own, on loopback.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/testkit/modeltest"
)

func fail(err error) {
	fmt.Fprintln(os.Stderr, "modelserver:", err)
	os.Exit(1)
}

func main() {
	var options modeltest.Options
	addr := flag.String("addr", "127.0.0.1:18080", "listen address")
	corpus := flag.String("corpus", "", "corpus.jsonl with id and text; several, separated by commas")
	extractions := flag.String("extractions", "", "extractions.jsonl with chunk_id and entities, one for each corpus")
	life := flag.Duration("for", time.Hour, "stop after this long")
	flag.DurationVar(&options.Latency, "latency", 0, "of a chat call")
	flag.DurationVar(&options.EmbedLatency, "embed-latency", 0, "of an embedding call")
	flag.IntVar(&options.Dimension, "dim", 256, "dimension of embeddings")
	flag.IntVar(&options.Capacity, "capacity", 0, "calls served at once; 0 = any number")
	flag.Float64Var(&options.P429, "p429", 0, "share of 429 with Retry-After")
	flag.Float64Var(&options.P500, "p500", 0, "share of 500")
	flag.Float64Var(&options.PHang, "phang", 0, "share that never answers")
	flag.Float64Var(&options.PGarbage, "pgarbage", 0, "share of contents that are no JSON")
	flag.Float64Var(&options.PTruncate, "ptruncate", 0, "share of contents that are cut")
	flag.StringVar(&options.Poison, "poison", "", "prompts with this string always get garbage")
	flag.BoolVar(&options.Shuffle, "shuffle", true, "embeddings come in another order, with their index")
	flag.Parse()
	server := modeltest.New(options)
	if *corpus != "" {
		corpora, recordings := strings.Split(*corpus, ","), strings.Split(*extractions, ",")
		if len(corpora) != len(recordings) {
			fail(fmt.Errorf("%d corpora and %d extractions", len(corpora), len(recordings)))
		}
		for i := range corpora {
			if err := server.Replay(corpora[i], recordings[i]); err != nil {
				fail(err)
			}
		}
	}
	if err := server.Listen(*addr); err != nil {
		fail(err)
	}
	fmt.Println("listening on", server.URL)
	fmt.Println("counts at", strings.TrimSuffix(server.URL, "/v1")+"/stats")
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, *life)
	defer cancel()
	<-ctx.Done()
	server.Close()
	_ = json.NewEncoder(os.Stdout).Encode(server.Stats()) // the last word, for logs
}
