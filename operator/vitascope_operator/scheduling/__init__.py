"""Which job runs on which group, and when: a pure core, the view that it decides on, and the dispatcher that acts."""
