// SPDX-License-Identifier: BSD-2-Clause

// Runs a scene with grpc-go, and prints what the service answers: main SCENE USER ADDRESS,... [CA CERT KEY].
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
)

const patience = 60 * time.Second

// The names of the codes as the protocol spells them.
var names = map[codes.Code]string{
	codes.Unknown: "UNKNOWN", codes.Unimplemented: "UNIMPLEMENTED", codes.NotFound: "NOT_FOUND",
	codes.ResourceExhausted: "RESOURCE_EXHAUSTED", codes.DeadlineExceeded: "DEADLINE_EXCEEDED",
	codes.Unavailable: "UNAVAILABLE", codes.InvalidArgument: "INVALID_ARGUMENT",
	codes.Unauthenticated: "UNAUTHENTICATED",
}

func must(err error) {
	if err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
}

func security(files []string) credentials.TransportCredentials {
	if len(files) == 0 {
		return insecure.NewCredentials()
	}
	authority, err := os.ReadFile(files[0])
	must(err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authority)
	own, err := tls.LoadX509KeyPair(files[1], files[2])
	must(err)
	return credentials.NewTLS(&tls.Config{RootCAs: pool, Certificates: []tls.Certificate{own}, ServerName: "127.0.0.1"})
}

func connect(addresses []string, files []string) *grpc.ClientConn {
	names := manual.NewBuilderWithScheme("fixed")
	var list []resolver.Address
	for _, address := range addresses {
		list = append(list, resolver.Address{Addr: address})
	}
	names.InitialState(resolver.State{Addresses: list})
	connection, err := grpc.NewClient("fixed:///weir", grpc.WithResolvers(names),
		grpc.WithTransportCredentials(security(files)),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig": [{"round_robin": {}}]}`))
	must(err)
	return connection
}

func request(key, user string) *rls.RateLimitRequest {
	entries := []*common.RateLimitDescriptor_Entry{{Key: key, Value: user}}
	return &rls.RateLimitRequest{Domain: "clients", Descriptors: []*common.RateLimitDescriptor{{Entries: entries}}}
}

func outcome(response *rls.RateLimitResponse, err error) string {
	if err == nil {
		return fmt.Sprintf("%s %d", response.OverallCode, response.Statuses[0].LimitRemaining)
	}
	answer := status.Convert(err)
	if answer.Code() == codes.Unknown {
		return "UNKNOWN " + answer.Message()
	}
	return names[answer.Code()]
}

func limits(ctx context.Context, client rls.RateLimitServiceClient, user string, options ...grpc.CallOption) {
	for i := 0; i < 4; i++ {
		fmt.Println(outcome(client.ShouldRateLimit(ctx, request("few", user), options...)))
	}
}

func errors(ctx context.Context, connection *grpc.ClientConn, client rls.RateLimitServiceClient, user string) {
	nowhere := request("few", user)
	nowhere.Domain = ""
	fmt.Println(outcome(client.ShouldRateLimit(ctx, nowhere)))
	fmt.Println(outcome(client.ShouldRateLimit(ctx, &rls.RateLimitRequest{Domain: "clients"})))
	const unknown = "/envoy.service.ratelimit.v3.RateLimitService/Nothing"
	err := connection.Invoke(ctx, unknown, &emptypb.Empty{}, &emptypb.Empty{})
	fmt.Println(outcome(nil, err))
	fmt.Println(outcome(client.ShouldRateLimit(ctx, request("few", strings.Repeat("x", 1<<20)))))
}

func many(ctx context.Context, client rls.RateLimitServiceClient, user string) {
	var lock sync.Mutex
	var all sync.WaitGroup
	counts := map[string]int{}
	for i := 0; i < 1000; i++ {
		all.Add(1)
		go func() {
			defer all.Done()
			response, err := client.ShouldRateLimit(ctx, request("many", user))
			what := strings.Fields(outcome(response, err))[0]
			lock.Lock()
			counts[what]++
			lock.Unlock()
		}()
	}
	all.Wait()
	fmt.Println(counts["OK"], counts["OVER_LIMIT"])
}

func health(ctx context.Context, connection *grpc.ClientConn) {
	client := grpc_health_v1.NewHealthClient(connection)
	for _, service := range []string{"", "ratelimit", "other"} {
		response, err := client.Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: service})
		if err != nil {
			fmt.Println(names[status.Code(err)])
		} else {
			fmt.Println(response.Status)
		}
	}
	stream, err := client.Watch(ctx, &grpc_health_v1.HealthCheckRequest{})
	must(err)
	response, err := stream.Recv()
	must(err)
	fmt.Println(response.Status)
}

// Calls until standard input ends. Prints a line once the first calls are answered, and then the failures.
func drain(client rls.RateLimitServiceClient, user string) {
	ended := make(chan bool)
	go func() {
		bufio.NewReader(os.Stdin).ReadString('\n')
		close(ended)
	}()
	calls, failures := 0, 0
	for done := false; !done; calls++ {
		select {
		case <-ended:
			done = true
		default:
		}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		_, err := client.ShouldRateLimit(ctx, request("many", user))
		cancel()
		if err != nil {
			failures++
			fmt.Println(err)
		}
		if calls == 100 {
			fmt.Println("called")
		}
	}
	fmt.Println(failures, "failures")
}

func main() {
	scene, user := os.Args[1], os.Args[2]
	connection := connect(strings.Split(os.Args[3], ","), os.Args[4:])
	client := rls.NewRateLimitServiceClient(connection)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	switch scene {
	case "limits":
		limits(ctx, client, user)
	case "gzip":
		limits(ctx, client, user, grpc.UseCompressor(gzip.Name))
	case "errors":
		errors(ctx, connection, client, user)
	case "deadline":
		short, end := context.WithTimeout(ctx, time.Nanosecond)
		defer end()
		fmt.Println(outcome(client.ShouldRateLimit(short, request("few", user))))
	case "many":
		many(ctx, client, user)
	case "health":
		health(ctx, connection)
	case "drain":
		drain(client, user)
	}
}
