package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

// ask puts the questions of the corpus to the stack, which has nothing else to do: first after a start, then one at
// once and eight at once, by three methods.
func (b *bench) ask() error {
	began := time.Now()
	if err := b.reopen(); err != nil {
		return err
	}
	started := time.Since(began)
	began = time.Now()
	if err := b.load("hybrid", 1, 1, 0); err != nil {
		return err
	}
	fmt.Printf("\nopening %s: the stack in %.1f s, its first answer after %.1f s more (the client's start with it)\n\n",
		b.name, started.Seconds(), time.Since(began).Seconds())
	for _, method := range []string{"hybrid", "unweaver", "bm25"} {
		for _, flight := range []int{1, 8} {
			if err := b.load(method, 2000, flight, 500); err != nil {
				return err
			}
		}
	}
	fmt.Printf("\nmemory of the stack: %.0f MiB anonymous, %.0f resident\n",
		anonymous(b.pid), resident(b.pid))
	return nil
}

// load runs the generator, which prints a line.
func (b *bench) load(method string, queries, flight, warm int) error {
	cmd := exec.Command(executable("queryload"), "-url", b.dev.HTTP, "-index", "m", "-key", b.dev.Token,
		"-questions", filepath.Join(*data, "questions.jsonl"), "-method", method, "-pid", strconv.Itoa(b.pid),
		"-queries", strconv.Itoa(queries), "-flight", strconv.Itoa(flight), "-warm", strconv.Itoa(warm))
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if queries == 1 {
		cmd.Stdout = nil
	}
	return cmd.Run()
}
