// Makes a screenshot small: at most 256 colours instead of all that the smoothing of text makes.

import { deflateSync, inflateSync } from "node:zlib";

const MAX_COLORS = 256;

function crc32(bytes) {
  let crc = -1;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ (crc & 1 ? 0xedb88320 : 0);
  }
  return ~crc >>> 0;
}

function* chunks(png) {
  for (let at = 8; at < png.length; ) {
    const length = png.readUInt32BE(at);
    yield [png.toString("latin1", at + 4, at + 8), png.subarray(at + 8, at + 8 + length)];
    at += 12 + length;
  }
}

function chunk(type, data) {
  const body = Buffer.concat([Buffer.from(type, "latin1"), data]);
  const frame = Buffer.alloc(8 + body.length);
  frame.writeUInt32BE(data.length, 0);
  body.copy(frame, 4);
  frame.writeUInt32BE(crc32(body), 4 + body.length);
  return frame;
}

function paeth(left, up, corner) {
  const [a, b, c] = [left, up, corner].map((value) => Math.abs(left + up - corner - value));
  return a <= b && a <= c ? left : b <= c ? up : corner;
}

/** Undoes the filters of the rows of an image with `size` bytes for each pixel. */
function unfilter(raw, width, height, size) {
  const stride = width * size;
  const pixels = Buffer.alloc(stride * height);
  for (let y = 0; y < height; y++) {
    const filter = raw[y * (stride + 1)];
    for (let x = 0; x < stride; x++) {
      const at = y * stride + x;
      const left = x >= size ? pixels[at - size] : 0;
      const up = y ? pixels[at - stride] : 0;
      const corner = y && x >= size ? pixels[at - stride - size] : 0;
      const guess = [0, left, up, (left + up) >> 1, filter === 4 ? paeth(left, up, corner) : 0][filter];
      pixels[at] = raw[y * (stride + 1) + 1 + x] + guess;
    }
  }
  return pixels;
}

/** Returns the most frequent colours, and a function that returns the index of the nearest of them. */
function paletteOf(colors) {
  const counts = new Map();
  for (const color of colors) counts.set(color, (counts.get(color) ?? 0) + 1);
  const palette = [...counts].sort((a, b) => b[1] - a[1]).slice(0, MAX_COLORS).map(([color]) => color);
  const indexes = new Map(palette.map((color, index) => [color, index]));
  const distance = (a, b) => [16, 8, 0].reduce((sum, shift) => sum + (((a >> shift) & 255) - ((b >> shift) & 255)) ** 2, 0);
  const indexOf = (color) => {
    if (!indexes.has(color)) {
      let best = 0;
      palette.forEach((other, index) => {
        if (distance(color, other) < distance(color, palette[best])) best = index;
      });
      indexes.set(color, best);
    }
    return indexes.get(color);
  };
  return { palette, indexOf };
}

/** Returns the PNG of a screenshot with a palette. */
export function shrink(png) {
  const parts = [...chunks(png)];
  const header = Buffer.from(parts.find(([type]) => type === "IHDR")[1]);
  const [width, height, size] = [header.readUInt32BE(0), header.readUInt32BE(4), header[9] === 6 ? 4 : 3];
  const data = inflateSync(Buffer.concat(parts.filter(([type]) => type === "IDAT").map(([, bytes]) => bytes)));
  const pixels = unfilter(data, width, height, size);
  const colors = new Uint32Array(width * height);
  for (let index = 0; index < colors.length; index++) colors[index] = pixels.readUIntBE(index * size, 3);
  const { palette, indexOf } = paletteOf(colors);
  const rows = Buffer.alloc((width + 1) * height);
  for (let index = 0; index < colors.length; index++)
    rows[Math.floor(index / width) * (width + 1) + 1 + (index % width)] = indexOf(colors[index]);
  // A palette of 8 bits.
  header[8] = 8;
  header[9] = 3;
  const colorTable = Buffer.alloc(palette.length * 3);
  palette.forEach((color, index) => colorTable.writeUIntBE(color, index * 3, 3));
  return Buffer.concat([
    png.subarray(0, 8),
    chunk("IHDR", header),
    chunk("PLTE", colorTable),
    chunk("IDAT", deflateSync(rows, { level: 9 })),
    chunk("IEND", Buffer.alloc(0)),
  ]);
}
