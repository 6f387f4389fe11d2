// The heights of very many rows, and their sums: finding the row at a place, and the place of a row, takes log n steps
// (a Fenwick tree).

export class Heights {
  constructor(guess) {
    this.guess = guess;
    this.count = 0;
    this.rows = new Float32Array(0);
    this.tree = new Float64Array(1);
    this.measured = new Uint8Array(0);
  }

  resize(count) {
    if (count > this.rows.length) {
      const rows = new Float32Array(Math.max(1024, count, this.rows.length * 2));
      rows.set(this.rows);
      const measured = new Uint8Array(rows.length);
      measured.set(this.measured);
      this.rows = rows;
      this.measured = measured;
      this.fill(this.count, count);
      this.build();
    } else if (count > this.count) {
      for (let at = this.count; at < count; at++) this.set(at, this.guess);
    }
    this.count = count;
  }

  fill(from, to) {
    for (let at = from; at < to; at++) this.rows[at] = this.guess;
  }

  build() {
    const n = this.rows.length;
    this.tree = new Float64Array(n + 1);
    for (let at = 1; at <= n; at++) {
      this.tree[at] += this.rows[at - 1];
      const up = at + (at & -at);
      if (up <= n) this.tree[up] += this.tree[at];
    }
  }

  set(at, height) {
    const delta = Math.fround(height) - this.rows[at];
    if (!delta) return false;
    this.rows[at] = height;
    for (let i = at + 1; i < this.tree.length; i += i & -i) this.tree[i] += delta;
    return true;
  }

  measure(at, height) {
    this.measured[at] = 1;
    return this.set(at, height);
  }

  /** A better guess, for a row that was never measured. */
  estimate(at, height) {
    return this.measured[at] ? false : this.set(at, height);
  }

  /** How high all rows before this one are together. */
  before(at) {
    let sum = 0;
    for (let i = at; i > 0; i -= i & -i) sum += this.tree[i];
    return sum;
  }

  total() {
    return this.before(this.count);
  }

  /** The row at this place. */
  rowAt(place) {
    let at = 0;
    let left = place;
    for (let bit = 1 << 30; bit; bit >>= 1) {
      const next = at + bit;
      if (next < this.tree.length && this.tree[next] <= left) {
        at = next;
        left -= this.tree[next];
      }
    }
    return Math.max(0, Math.min(at, this.count - 1));
  }
}
