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
  for (const day of chart.querySelectorAll('g.day')) {
    const title = day.querySelector('title');
    const text = title.textContent;
    title.remove(); // or the browser would show it as well
    day.addEventListener('pointerenter', () => {
      tip.textContent = text;
      tip.hidden = false;
    });
    day.addEventListener('pointermove', (event) => {
      const frame = chart.parentElement.getBoundingClientRect();
      const x = Math.min(event.clientX - frame.left + 14, frame.width - tip.offsetWidth);
      tip.style.left = `${Math.max(0, x)}px`;
      tip.style.top = `${event.clientY - frame.top + 14}px`;
    });
    day.addEventListener('pointerleave', () => {
      tip.hidden = true;
    });
  }
}
