// Command load asks a query-api over HTTP, from a process of its own, and tells how long answers take, how many come in
// a second, and, where the server is on this machine, what processor time a query costs it, which a busy machine
// disturbs less than time that passes:
//
//	go run ./query-api/load -url http://127.0.0.1:8080 -index docs -questions questions.jsonl -method hybrid -pid PID
//
// With -answers it writes what was found, one line a question in their order: two versions of the server that find
// the same write the same.
package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

var (
	url       = flag.String("url", "", "of the server")
	index     = flag.String("index", "", "name of the index")
	questions = flag.String("questions", "", "file of lines with a field question")
	method    = flag.String("method", "hybrid", "retrieval method")
	rule      = flag.String("rule", "", "election rule")
	queries   = flag.Int("queries", 1000, "how many are asked; the questions begin again where they end")
	flight    = flag.Int("flight", 1, "how many are asked at once")
	warm      = flag.Int("warm", 100, "queries that are asked before and not counted")
	pid       = flag.Int("pid", 0, "of the server, for its processor time")
	key       = flag.String("key", "", "API key")
	answers   = flag.String("answers", "", "file for what was found")
)

func main() {
	flag.Parse()
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}

func run() error {
	asked, err := read(*questions)
	if err != nil {
		return err
	}
	if _, _, err := ask(asked, *warm); err != nil {
		return err
	}
	cpu, began := processor(*pid), time.Now()
	took, found, err := ask(asked, *queries)
	if err != nil {
		return err
	}
	wall := time.Since(began)
	cpu = processor(*pid) - cpu
	slices.Sort(took)
	fmt.Printf("%s %s: %d queries, %d at once: p50 %.2f ms, p99 %.2f ms, %.0f queries/s",
		*method, *rule, *queries, *flight,
		milliseconds(took[len(took)/2]), milliseconds(took[len(took)*99/100]), float64(*queries)/wall.Seconds())
	if *pid != 0 {
		fmt.Printf(", %.3f ms of the server's processor time a query", 1000*cpu/float64(*queries))
	}
	fmt.Println()
	if *answers == "" {
		return nil
	}
	return os.WriteFile(*answers, bytes.Join(append(found, nil), []byte("\n")), 0o600)
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// read gives the questions of a file.
func read(path string) ([]string, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var out []string
	lines := bufio.NewScanner(bytes.NewReader(raw))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var one struct{ Question string }
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
			return nil, err
		}
		out = append(out, one.Question)
	}
	if len(out) == 0 {
		return nil, errors.New(path + " holds no question")
	}
	return out, lines.Err()
}

// ask sends n queries, and gives how long each took and what was found, in the order of the questions.
func ask(asked []string, n int) ([]time.Duration, [][]byte, error) {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: *flight}, Timeout: time.Minute}
	took, found, failed := make([]time.Duration, n), make([][]byte, n), make([]error, *flight)
	next := make(chan int)
	var beside sync.WaitGroup
	for worker := range *flight {
		beside.Go(func() {
			for i := range next {
				if failed[worker] != nil {
					continue
				}
				began := time.Now()
				found[i], failed[worker] = query(client, asked[i%len(asked)])
				took[i] = time.Since(began)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	beside.Wait()
	return took, found, errors.Join(failed...)
}

// query asks one question.
func query(client *http.Client, question string) ([]byte, error) {
	body := map[string]any{"query": question, "method": *method, "top_chunks": 10}
	if *rule != "" {
		body["rule"] = *rule
	}
	raw, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequest(http.MethodPost, *url+"/v1/indexes/"+*index+"/query", bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	if *key != "" {
		request.Header.Set("Authorization", "Bearer "+*key)
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	raw, err = io.ReadAll(response.Body)
	if err = cmp.Or(err, response.Body.Close()); err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", response.Status, raw)
	}
	if *answers == "" {
		return nil, nil
	}
	var answer map[string]any
	if err := json.Unmarshal(raw, &answer); err != nil {
		return nil, err
	}
	delete(answer, "timings_ms")
	delete(answer, "usage") // whether the question's embedding was remembered
	return json.Marshal(answer)
}

// processor is the user and system time of a process in seconds (proc(5)); 0 where it cannot be read.
func processor(pid int) float64 {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(raw), ") ")
	fields := strings.Fields(rest)
	user, _ := strconv.ParseFloat(fields[11], 64)
	system, _ := strconv.ParseFloat(fields[12], 64)
	return (user + system) / 100
}
