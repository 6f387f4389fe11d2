set -e
for name in TestRate TestClientsAreSeparate 'Test.*Burst' 'Test.*Wait'; do grep -q "^func $name" limit/limit_test.go; done
cat > limit/hidden_test.go <<'GO'
package limit

import (
	"testing"
	"time"
)

func hiddenAt(milliseconds int) time.Time {
	return time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(milliseconds) * time.Millisecond)
}

func hiddenCount(l *Limiter, client string, milliseconds int) int {
	count := 0
	for count < 100 && l.Allow(client, hiddenAt(milliseconds)) {
		count++
	}
	return count
}

func TestHiddenBucket(t *testing.T) {
	l := &Limiter{Rate: 2, Burst: 5}
	for _, step := range []struct{ at, count int }{{0, 5}, {250, 0}, {500, 1}, {1500, 2}, {1250, 0}, {1900, 0}, {2010, 1}, {60_000, 5}} {
		if found := hiddenCount(l, "a", step.at); found != step.count {
			t.Errorf("at %d: %d", step.at, found)
		}
	}
	if hiddenCount(l, "b", 100) != 5 {
		t.Error("clients share a bucket")
	}
	if found := hiddenCount(&Limiter{Rate: 3}, "a", 0); found != 3 {
		t.Errorf("without a burst: %d", found)
	}
}

func TestHiddenWait(t *testing.T) {
	l := &Limiter{Rate: 4, Burst: 1}
	near := func(found, expected time.Duration) {
		t.Helper()
		if found < expected-time.Microsecond || found > expected+time.Millisecond {
			t.Errorf("found %v, expected %v", found, expected)
		}
	}
	near(l.Wait("a", hiddenAt(0)), 0)
	near(l.Wait("a", hiddenAt(0)), 0)
	if !l.Allow("a", hiddenAt(0)) {
		t.Error("Wait took a token")
	}
	near(l.Wait("a", hiddenAt(0)), 250*time.Millisecond)
	near(l.Wait("a", hiddenAt(100)), 150*time.Millisecond)
	near(l.Wait("a", hiddenAt(250)), 0)
	if !l.Allow("a", hiddenAt(251)) || l.Allow("a", hiddenAt(200)) {
		t.Error("wrong time")
	}
}
GO
go vet ./...
go test ./...
