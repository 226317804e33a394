package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/unweaver/unweaver/infra/embedded/stack"
	"github.com/unweaver/unweaver/internal/testkit/modeltest"
)

func stats(base string) (modeltest.Stats, error) {
	var s modeltest.Stats
	out, err := exec.Command("curl", "-s", strings.TrimSuffix(base, "/v1")+"/stats").Output()
	if err != nil {
		return s, err
	}
	return s, json.Unmarshal(out, &s)
}

// modelServer starts the test server as a process of its own.
func modelServer(o modeltest.Options) (url string, stop func(), err error) {
	cmd := exec.Command(
		executable("modelserver"),
		"-addr",
		"127.0.0.1:0",
		"-dim",
		strconv.Itoa(o.Dimension),
		"-latency",
		o.Latency.String(),
		"-capacity",
		strconv.Itoa(o.Capacity),
		"-corpus",
		filepath.Join(*data, "corpus.jsonl"),
		"-extractions",
		filepath.Join(*data, "extractions_desc.jsonl"),
		"-for",
		"2h",
	)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return "", nil, err
	}
	return strings.TrimSpace(
		strings.TrimPrefix(line, "listening on "),
	), func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }, nil
}

// startStack starts the embedded stack as a process of its own; its log lies beside its data, and is shown where it fails.
func startStack(dir string) (stack.Dev, int, func(), error) {
	name := dir + ".log"
	log, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return stack.Dev{}, 0, nil, err
	}
	cmd := exec.Command(executable("unweaver"), "dev", "--data-dir", dir, "--temporal-port", "0", "--http-port", "0")
	cmd.Env = append(os.Environ(), "BENCH_KEY=bench")
	cmd.Stderr = log
	err = cmd.Start()
	if closed := log.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return stack.Dev{}, 0, nil, err
	}
	end := func() { _ = cmd.Process.Signal(syscall.SIGTERM); _ = cmd.Wait() }
	for range 6000 {
		if d, ok := stack.ReadDev(dir); ok && d.PID == cmd.Process.Pid {
			return d, cmd.Process.Pid, end, nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	end()
	said, _ := os.ReadFile(name) // what it says is beside the point where it cannot be read
	return stack.Dev{}, 0, nil, fmt.Errorf("the stack was not ready in a minute: %s", said)
}

// cpuSeconds is user and system time of a process (proc(5)).
func cpuSeconds(pid int) float64 {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	f := strings.Fields(string(raw[strings.LastIndexByte(string(raw), ')')+2:]))
	u, _ := strconv.ParseFloat(f[11], 64)
	s, _ := strconv.ParseFloat(f[12], 64)
	return (u + s) / 100
}

// anonymous is the anonymous memory that a process holds, in MiB: mapped files are the kernel's to drop.
func anonymous(pid int) float64 { return held(pid, "RssAnon:") }

// resident is all memory that a process holds, in MiB.
func resident(pid int) float64 { return held(pid, "VmRSS:") }

// held reads a line of a process's status (proc(5)), in MiB.
func held(pid int, line string) float64 {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for _, l := range strings.Split(string(raw), "\n") {
		if v, ok := strings.CutPrefix(l, line); ok {
			k, _ := strconv.ParseFloat(strings.Fields(v)[0], 64)
			return k / 1024
		}
	}
	return 0
}
