// Package storage keeps notes.
package storage

import (
	"fmt"
	"sort"
	"sync"
)

// StorageError is the error about a note.
type StorageError struct {
	Name   string
	Reason string
}

func (e *StorageError) Error() string {
	return fmt.Sprintf("note %s: %s", e.Name, e.Reason)
}

// Storage has notes by name. It may be used by several goroutines.
type Storage struct {
	mutex sync.Mutex
	notes map[string]string
}

// NewStorage returns an empty Storage.
func NewStorage() *Storage {
	return &Storage{notes: map[string]string{}}
}

// Put keeps a note.
func (s *Storage) Put(name, text string) error {
	if name == "" {
		return &StorageError{name, "the name is empty"}
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.notes[name] = text
	return nil
}

// Get returns a note.
func (s *Storage) Get(name string) (string, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	text, ok := s.notes[name]
	if !ok {
		return "", &StorageError{name, "not found"}
	}
	return text, nil
}

// Names returns the names of all notes, sorted.
func (s *Storage) Names() []string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	names := make([]string, 0, len(s.notes))
	for name := range s.notes {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}
