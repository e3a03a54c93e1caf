// SPDX-License-Identifier: BSD-2-Clause

// golang.org/x/time/rate in a map behind a mutex, as servers use it for many keys. The clock is fixed,
// as for weir.
package main

import (
	"bufio"
	"fmt"
	"os"
	"sort"
	"sync"
	"syscall"
	"time"

	"golang.org/x/time/rate"
)

const (
	keys    = 1000000
	rounds  = 5
	billion = 1000000000
)

type limiters struct {
	lock sync.Mutex
	of   map[string]*rate.Limiter
}

func (l *limiters) allow(key string, now time.Time) bool {
	l.lock.Lock()
	defer l.lock.Unlock()
	limiter, known := l.of[key]
	if !known {
		limiter = rate.NewLimiter(billion, billion)
		l.of[key] = limiter
	}
	return limiter.AllowN(now, 1)
}

// CPU time, which other programs on the machine do not affect. It includes the garbage collector.
func seconds() float64 {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		panic(err)
	}
	return float64(r.Utime.Nano()+r.Stime.Nano()) / 1e9
}

// Millions of requests a second.
func median(l *limiters, requests []string, now time.Time) float64 {
	figures := make([]float64, rounds)
	for i := range figures {
		began := seconds()
		for _, key := range requests {
			if !l.allow(key, now) {
				panic("a request was denied")
			}
		}
		figures[i] = float64(len(requests)) / (seconds() - began) / 1e6
	}
	sort.Float64s(figures)
	return figures[rounds/2]
}

func main() {
	file, err := os.Open(os.Args[1])
	if err != nil {
		panic(err)
	}
	var lines []string
	for scanner := bufio.NewScanner(file); scanner.Scan(); {
		lines = append(lines, scanner.Text())
	}
	now := time.Now()
	l := &limiters{of: map[string]*rate.Limiter{}}
	for _, key := range lines[:keys] {
		l.allow(key, now)
	}
	many := median(l, lines[keys:], now)
	hot := make([]string, len(lines)-keys)
	for i := range hot {
		hot[i] = "one-hot-key-of-all"
	}
	fmt.Printf("{\"hot\": %.4f, \"1M\": %.4f}\n", median(l, hot, now), many)
}
