// Command gate answers requests, at most a few per second and client.
package main

import (
	"fmt"
	"log"
	"net"
	"net/http"
	"sync"
	"time"

	"example.org/gate/limit"
)

type server struct {
	mutex   sync.Mutex
	limiter limit.Limiter
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	client, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		client = r.RemoteAddr
	}
	s.mutex.Lock()
	allowed := s.limiter.Allow(client, time.Now())
	s.mutex.Unlock()
	if !allowed {
		http.Error(w, "too many requests", http.StatusTooManyRequests)
		return
	}
	fmt.Fprintln(w, "hello", client)
}

func main() {
	log.Fatal(http.ListenAndServe("127.0.0.1:8080", &server{limiter: limit.Limiter{Rate: 10}}))
}
