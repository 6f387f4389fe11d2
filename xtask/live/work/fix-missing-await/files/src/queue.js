import { delayBefore, wait } from './retry.js';

/** Runs jobs one after the other. A job that fails is tried again. */
export class Queue {
  constructor({ attempts = 3 } = {}) {
    this.attempts = attempts;
    this.jobs = [];
    this.results = [];
  }

  /** Adds a job: a name, and a function that returns a promise. */
  add(name, run) {
    this.jobs.push({ name, run });
  }

  /** Runs all jobs, and returns their results. */
  async drain() {
    while (this.jobs.length > 0) {
      const job = this.jobs.shift();
      this.results.push(await this.runJob(job));
    }
    return this.results;
  }

  async runJob(job) {
    let error;
    for (let attempt = 1; attempt <= this.attempts; attempt += 1) {
      await wait(delayBefore(attempt));
      try {
        const value = job.run(attempt);
        return { name: job.name, state: 'done', attempts: attempt, value };
      } catch (caught) {
        error = caught;
      }
    }
    return { name: job.name, state: 'failed', attempts: this.attempts, error: error.message };
  }
}
