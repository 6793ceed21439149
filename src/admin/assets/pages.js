// Every page works without this script.

// over plain http browsers allow no access to the clipboard, except from this machine
const buttons = navigator.clipboard ? document.querySelectorAll('button[data-copy]') : [];
for (const button of buttons) {
  button.hidden = false;
  const original = button.innerHTML;
  button.addEventListener('click', async () => {
    await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
    button.textContent = 'Copied';
    setTimeout(() => {
      button.innerHTML = original;
    }, 2000);
  });
}

for (const chart of document.querySelectorAll('svg.chart')) {
  const tip = document.createElement('div');
  tip.className = 'tip';
  tip.hidden = true;
  chart.parentElement.append(tip);
  for (const bar of chart.querySelectorAll('.bar')) {
    const title = bar.querySelector('title');
    if (title === null) continue;
    const text = title.textContent;
    title.remove(); // or the browser would show it as well
    const show = (clientX, clientY) => {
      tip.textContent = text;
      tip.hidden = false;
      const frame = chart.parentElement.getBoundingClientRect();
      const x = Math.min(clientX - frame.left + 14, frame.width - tip.offsetWidth);
      tip.style.left = `${Math.max(0, x)}px`;
      tip.style.top = `${clientY - frame.top + 14}px`;
    };
    const hide = () => {
      tip.hidden = true;
    };
    bar.addEventListener('pointerenter', (event) => show(event.clientX, event.clientY));
    bar.addEventListener('pointermove', (event) => show(event.clientX, event.clientY));
    bar.addEventListener('pointerleave', hide);
    bar.addEventListener('focus', () => {
      const { left, top } = bar.getBoundingClientRect();
      show(left, top);
    });
    bar.addEventListener('blur', hide);
  }
}

// A list that is watched is read again every two seconds while its page is in front, for a quarter of an hour:
// reading it keeps the session alive.
const live = document.querySelector('[data-live]');
if (live) {
  const button = document.querySelector('[data-pause]');
  let left = 0;
  const resume = (reads) => {
    left = reads;
    button.textContent = left > 0 ? 'Pause' : 'Follow';
  };
  button.hidden = false;
  button.addEventListener('click', () => resume(left > 0 ? 0 : 450));
  const refresh = async () => {
    // what somebody is about to follow or copy stays where it is
    if (left === 0 || document.hidden || live.contains(document.activeElement) || getSelection().toString()) return;
    const answer = await fetch(location.href);
    if (!answer.ok || answer.redirected) return resume(0);
    const fresh = new DOMParser().parseFromString(await answer.text(), 'text/html').getElementById(live.id);
    if (left === 0 || !fresh) return;
    live.replaceChildren(...fresh.childNodes);
    resume(left - 1);
  };
  const next = () =>
    setTimeout(
      () =>
        refresh()
          .catch(() => {})
          .finally(next),
      2000,
    );
  resume(450);
  next();
}
