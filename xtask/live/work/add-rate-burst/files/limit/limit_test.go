package limit

import (
	"testing"
	"time"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func after(seconds float64) time.Time {
	return start.Add(time.Duration(seconds * float64(time.Second)))
}

func TestRate(t *testing.T) {
	limiter := Limiter{Rate: 2}
	for i, expected := range []bool{true, true, false} {
		if found := limiter.Allow("a", start); found != expected {
			t.Errorf("request %d: %v", i, found)
		}
	}
	if !limiter.Allow("a", after(1)) {
		t.Error("no request after a second")
	}
}

func TestClientsAreSeparate(t *testing.T) {
	limiter := Limiter{Rate: 1}
	if !limiter.Allow("a", start) || !limiter.Allow("b", start) || limiter.Allow("a", start) {
		t.Error("clients share a limit")
	}
}
