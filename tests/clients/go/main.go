// SPDX-License-Identifier: BSD-2-Clause

// Runs steps with go-redis and its default options. clients_test.py describes the steps.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/redis/go-redis/v9"
)

func show(reply *redis.Cmd) {
	figures, err := reply.Int64Slice()
	if err != nil {
		fmt.Printf("error: %v\n", err)
		return
	}
	fmt.Println(strings.Trim(fmt.Sprint(figures), "[]"))
}

func words(command string) (all []any) {
	for _, word := range strings.Split(command, "\t") {
		all = append(all, word)
	}
	return all
}

func main() {
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + os.Args[1]})
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		commands := strings.Split(lines.Text(), "\t|\t")
		if len(commands) == 1 {
			show(client.Do(ctx, words(commands[0])...))
			continue
		}
		pipe := client.Pipeline()
		var replies []*redis.Cmd
		for _, command := range commands {
			replies = append(replies, pipe.Do(ctx, words(command)...))
		}
		pipe.Exec(ctx) // each reply keeps its own error
		for _, reply := range replies {
			show(reply)
		}
	}
}
