package powerloss_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
)

// recorded are the calls that change files or make changes durable, and those that tell which file a number means.
const recorded = "trace=?open,openat,?creat,close,dup,?dup2,dup3,lseek,write,pwrite64,writev,pwritev,ftruncate," +
	"?truncate,fallocate,copy_file_range,sendfile,?rename,renameat,renameat2,?link,linkat,?unlink,unlinkat,?mkdir," +
	"mkdirat,?rmdir,fsync,fdatasync,sync_file_range,mmap,?fork,?vfork,clone,?clone3,execve"

// call is a system call that has returned.
type call struct {
	name   string
	args   []string // quoted strings are decoded
	result int64    // negative: it failed
	at     time.Time
}

// handler gets each call when it begins, with a result of 0, and when it has returned.
type handler interface {
	begun(thread string, c call) error
	returned(thread string, c call) error
}

// read parses what strace -f -ttt -xx wrote. Calls of threads overlap: one that was interrupted comes in two lines.
func read(from io.Reader, to handler) error {
	open := map[string]string{} // thread -> the first part of its line
	lines := bufio.NewReaderSize(from, 1<<20)
	for number := 1; ; number++ {
		line, err := lines.ReadString('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := one(strings.TrimSuffix(line, "\n"), open, to); err != nil {
			return fmt.Errorf("line %d: %w: %.200s", number, err, line)
		}
	}
}

func one(line string, open map[string]string, to handler) error {
	thread, rest, _ := strings.Cut(line, " ")
	rest = strings.TrimLeft(rest, " ")
	stamp, rest, _ := strings.Cut(rest, " ")
	if strings.HasPrefix(rest, "+++") || strings.HasPrefix(rest, "---") {
		return nil
	}
	at, err := moment(stamp)
	if err != nil {
		return err
	}
	if first, unfinished := strings.CutSuffix(rest, " <unfinished ...>"); unfinished {
		open[thread] = first
		name, args, err := arguments(first)
		if err != nil {
			return err
		}
		return to.begun(thread, call{name: name, args: args, at: at})
	}
	begun := true
	if strings.HasPrefix(rest, "<... ") {
		_, second, _ := strings.Cut(rest, " resumed>")
		rest, begun = open[thread]+second, false
		delete(open, thread)
	}
	end := strings.LastIndex(rest, " = ")
	if end < 0 {
		return errors.New("no result")
	}
	name, args, err := arguments(strings.TrimSuffix(strings.TrimRight(rest[:end], " "), ")"))
	if err != nil {
		return err
	}
	c := call{name: name, args: args, at: at}
	if begun {
		if err := to.begun(thread, c); err != nil {
			return err
		}
	}
	result, _, _ := strings.Cut(rest[end+3:], " ")
	if result == "?" { // the process ended in it
		return nil
	}
	if c.result, err = strconv.ParseInt(result, 0, 64); err != nil {
		c.result = 1 // an address
	}
	return to.returned(thread, c)
}

func moment(stamp string) (time.Time, error) {
	seconds, micros, _ := strings.Cut(stamp, ".")
	s, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return time.Time{}, err
	}
	us, err := strconv.ParseInt(micros, 10, 64)
	return time.Unix(s, us*1000), err
}

// arguments splits name(a, "b", c.
func arguments(text string) (name string, args []string, err error) {
	name, rest, _ := strings.Cut(text, "(")
	for rest != "" {
		rest = strings.TrimLeft(rest, ", ")
		if strings.HasPrefix(rest, `"`) {
			end := strings.IndexByte(rest[1:], '"') + 1
			if end == 0 {
				return name, nil, errors.New("a string does not end")
			}
			value, err := decode(rest[1:end])
			if err != nil {
				return name, nil, err
			}
			rest = rest[end+1:]
			if strings.HasPrefix(rest, "...") {
				return name, nil, errors.New("a string was cut")
			}
			args = append(args, value)
			continue
		}
		if strings.HasPrefix(rest, "[") { // of calls that touch no file of ours
			return name, append(args, rest), nil
		}
		var arg string
		arg, rest, _ = strings.Cut(rest, ",")
		args = append(args, strings.TrimRight(arg, " "))
	}
	return name, args, nil
}

// decode turns \x41\x42 into AB.
func decode(text string) (string, error) {
	out := make([]byte, len(text)/4)
	nibble := func(c byte) byte {
		if c >= 'a' {
			return c - 'a' + 10
		}
		return c - '0'
	}
	for i := range out {
		part := text[4*i:]
		if part[0] != '\\' || part[1] != 'x' {
			return "", errors.New("a string is not in hexadecimal")
		}
		out[i] = nibble(part[2])<<4 | nibble(part[3])
	}
	return string(out), nil
}

func readFile(path string, to handler) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(read(file, to), file.Close())
}
