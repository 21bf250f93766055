import { QueryClientProvider } from '@tanstack/react-query'
import { RouterProvider } from '@tanstack/react-router'
import { StrictMode } from 'react'
import { createRoot } from 'react-dom/client'
import { queries } from './api/client.ts'
import { router } from './app/routes.tsx'
import { applyTheme } from './app/theme.ts'
import { Unlock } from './app/unlock.tsx'
import { Questions } from './parts/dialog.tsx'
import { Toasts } from './parts/toast.tsx'

applyTheme()

const root = document.getElementById('app')
if (root) {
  createRoot(root).render(
    <StrictMode>
      <QueryClientProvider client={queries}>
        <RouterProvider router={router} />
        <Questions />
        <Unlock />
        <Toasts />
      </QueryClientProvider>
    </StrictMode>,
  )
}
