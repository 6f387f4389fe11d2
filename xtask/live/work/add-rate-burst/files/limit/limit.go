// Package limit bounds the requests of clients.
package limit

import "time"

// Limiter lets Rate requests through per second and client. Its fields must not change after the
// first use.
type Limiter struct {
	Rate int

	windows map[string]*window
}

// window counts the requests since its start.
type window struct {
	start time.Time
	count int
}

// Allow returns whether a client may send a request now, and counts it if so.
func (l *Limiter) Allow(client string, now time.Time) bool {
	if l.windows == nil {
		l.windows = map[string]*window{}
	}
	w, ok := l.windows[client]
	if !ok {
		w = &window{start: now}
		l.windows[client] = w
	}
	if now.Sub(w.start) >= time.Second {
		w.start, w.count = now, 0
	}
	if w.count >= l.Rate {
		return false
	}
	w.count++
	return true
}
